"""Zheng 2016, section 3: low-rank recovery of a matrix of sanitized ratings, and its bound.

Both are illustrations for one small matrix offline: the solver is no streaming algorithm, and the
bound says nothing at any epsilon that a device would use.
"""

from research.completion.bounds import laplace_bound, response_bound, rmse_bound
from research.completion.nuclear_norm import Recovered, recover

__all__ = ["Recovered", "laplace_bound", "recover", "response_bound", "rmse_bound"]
