"""The mechanisms for ratings: what turns a level of the scale into a report.

A mechanism is a frozen value. Its id names the channel completely, `family:levels:epsilon`;
`adjacency` says what the epsilon protects.

>>> from murmurec import mechanisms
>>> rr = mechanisms.RandomizedResponse(levels=5, epsilon=Fraction(1, 2))
>>> rr.id, str(rr.adjacency)
('rr:5:1/2', 'value')
>>> mechanisms.parse("rr:5:1/2") == rr
True
>>> rr.likelihood().round(3)[:, 0]  # P(report | the lowest level)
array([0.292, 0.177, 0.177, 0.177, 0.177])

`families()` lists the names that `parse` and `mechanism` know.
"""

from __future__ import annotations

from fractions import Fraction

from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.privacy_map import Adjacency
from stream_app.privacy.ratings.identity import Identity
from stream_app.privacy.ratings.like import Like
from stream_app.privacy.ratings.modified_laplace import ModifiedLaplace
from stream_app.privacy.ratings.partition_response import PartitionResponse
from stream_app.privacy.ratings.randomized_response import RandomizedResponse
from stream_app.privacy.ratings.randomized_response_missing import RandomizedResponseWithMissing
from stream_app.privacy.ratings.ternary import Ternary
from stream_app.privacy.registry import families, mechanism, parse

__all__ = [
    "Adjacency",
    "Fraction",
    "Identity",
    "Like",
    "Mechanism",
    "ModifiedLaplace",
    "PartitionResponse",
    "RandomizedResponse",
    "RandomizedResponseWithMissing",
    "Ternary",
    "families",
    "mechanism",
    "parse",
]
