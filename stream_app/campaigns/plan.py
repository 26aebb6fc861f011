"""Plans of campaigns: the values `Stage`, `Campaign`, and `Wanted`, a stage without its noise."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from stream_app.wire.campaigns.plan import Campaign, Stage
from stream_app.wire.ids import Item
from stream_app.wire.limits import MAX_INTEGERS

__all__ = ["MAX_INTEGERS", "Campaign", "Item", "Stage", "Wanted"]


class Wanted(NamedTuple):
    """A stage before its noise is known: its kind, integers of a contribution, and share."""

    kind: str
    size: int
    share: Fraction
