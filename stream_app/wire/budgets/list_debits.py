"""Debits of private lists: who was given which epsilon, in the log that decides budgets.

A worker appends the debit of a list before it draws the list, and reads it back. Epsilon and the
budget are whole millionths, so that sums are exact. `query` is the correlation id of the query: a
second debit of one query counts nothing. `writer` is random and names this record alone: the worker
that wrote it recognises it by that, whatever offset it has.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from stream_app.wire.limits import VERSION

MILLION = 1_000_000
MAX_MILLIONTHS = 10_000 * MILLION

_Millionths = Annotated[int, msgspec.Meta(ge=1, le=MAX_MILLIONTHS)]
_Hex = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16,64}$")]


class ListDebit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A debit of `epsilon` millionths for a user (pseudonym, the record key) whose whole budget is
    `budget` millionths, as the writer's settings are."""

    user: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
    query: _Hex
    writer: _Hex
    epsilon: _Millionths
    budget: _Millionths
    v: int = VERSION
