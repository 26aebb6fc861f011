"""From noisy sums to the public item side: pure functions of integers, in one order of operations.

What they return enters the replicated state, so it has the same bytes on every machine: no BLAS, no
LAPACK, no function whose last bit depends on the processor; kernels and element-wise arithmetic.
Everything here is post-processing of what was released.
"""
