"""The part of the state that holds a campaign: its plan and the public item side as bytes, and
counts.

    counts   (14,) int64   places in `COUNTS`, then entries without effect, by `Ignored`
    plan     bytes         as on the wire; the first `plan_bytes` count
    side     bytes         `campaigns/public_side.py`; the first `side_bytes` count

The two byte arrays never get shorter, so that a checkpoint which is being read keeps its pages;
what is beyond their contents is zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns.public_side import PublicSide, decode_side, encode_side
from stream_app.models.growing_arrays import GrowingArrays
from stream_app.models.paged_arrays import Arrays, mark_dirty
from stream_app.state.campaigns.progress import CampaignProgress, Ignored, moved
from stream_app.wire import CampaignEntry
from stream_app.wire.campaigns.plan import Campaign, decode_plan, encode_plan

COUNTS = "plan_bytes", "side_bytes", "released", "aborted", "contributions", "aborted_total"
_REASONS = tuple(Ignored)


class CampaignPart(GrowingArrays):
    """Applies the entries of campaigns of so many parties; `standing` is how far they are."""

    growing: ClassVar[frozenset[str]] = frozenset({"plan", "side"})

    def __init__(self, parties: int) -> None:
        super().__init__()
        self._parties = parties
        self._counts = self.keep("counts", np.zeros(len(COUNTS) + len(_REASONS), np.int64))
        self.keep_growing("plan", np.uint8)
        self.keep_growing("side", np.uint8)
        self.standing = CampaignProgress()

    def apply(self, entry: CampaignEntry) -> Ignored | None:
        """Apply the next entry of the log; return why it has no effect, if it has none."""
        found, before = moved(self.standing, entry, self._parties), self.standing
        (pages, *_) = self.maps()
        mark_dirty(pages, 0, self._counts.nbytes)
        if isinstance(found, Ignored):
            self._counts[len(COUNTS) + _REASONS.index(found)] += 1
            return found
        self._counts[COUNTS.index("aborted_total")] += found.aborted
        if found.plan is not before.plan:
            self._put("plan", b"" if found.plan is None else encode_plan(found.plan))
        if found.side is not before.side:
            self._put("side", b"" if found.side is None else encode_side(found.side))
        for name in ("released", "aborted", "contributions"):
            self._counts[COUNTS.index(name)] = getattr(found, name)
        self.standing = found
        return None

    @property
    def aborted_total(self) -> int:
        """Stages that ended without a sum, of all campaigns."""
        return int(self._counts[COUNTS.index("aborted_total")])

    @property
    def ignored(self) -> dict[str, int]:
        """How many entries had no effect, by reason."""
        counts = self._counts[len(COUNTS) :].tolist()
        return {str(reason): n for reason, n in zip(_REASONS, counts, strict=True) if n}

    def summary(self) -> dict[str, Any]:
        """Return what operators see: the campaign in force (None before the first), how many of its
        stages are released and of how many contributions the newest sum is, and counts of all
        campaigns."""
        plan = self.standing.plan
        return {
            "number": plan.number if plan else None,
            "epsilon": float(plan.epsilon) if plan else None,
            "delta": float(plan.delta) if plan else None,
            "stages": len(plan.stages) if plan else 0,
            "released": self.standing.released,
            "aborted": self.standing.aborted,
            "contributions": self.standing.contributions,
            "stages_aborted": self.aborted_total,
            "ignored": self.ignored,
        }

    def _put(self, name: str, content: bytes) -> None:
        self.extend(name, len(content))
        length = self.length(name)
        mark_dirty(self.pages(name), 0, length)
        room = self.room(name)
        room[:length] = 0
        room[: len(content)] = np.frombuffer(content, np.uint8)
        self._counts[COUNTS.index(f"{name}_bytes")] = len(content)

    def check(self, arrays: Arrays) -> None:
        """Raise ValueError unless the arrays are those of some log."""
        _standing_of(arrays)

    def derive(self) -> None:
        """Read plan and side from the arrays."""
        self.standing = _standing_of(self.arrays())


def _standing_of(arrays: Mapping[str, NDArray[Any]]) -> CampaignProgress:
    counts = arrays["counts"].tolist()
    if min(counts) < 0:
        raise ValueError(f"campaigns: counts {counts}, and none is below 0")
    named = dict(zip(COUNTS, counts, strict=False))
    plan, side = _plan(_content(arrays, "plan", named)), _side(_content(arrays, "side", named))
    stages = 0 if plan is None else len(plan.stages)
    if named["released"] > stages or named["aborted"] > 1 or (side and plan is None):
        raise ValueError(f"campaigns: {named} of a plan of {stages} stages")
    return CampaignProgress(
        plan, named["released"], bool(named["aborted"]), named["contributions"], side
    )


def _content(arrays: Mapping[str, NDArray[Any]], name: str, counts: Mapping[str, int]) -> bytes:
    array, size = arrays[name], counts[f"{name}_bytes"]
    if size > len(array) or array[size:].any():
        raise ValueError(f"campaigns: {name} of {size} bytes in {len(array)}, with others behind")
    return array[:size].tobytes()


def _plan(content: bytes) -> Campaign | None:
    plan = decode_plan(content) if content else None
    if plan is not None and encode_plan(plan) != content:
        raise ValueError("campaigns: the bytes of the plan are not those that a plan has")
    return plan


def _side(content: bytes) -> PublicSide | None:
    side = decode_side(content) if content else None
    if side is not None and encode_side(side) != content:
        raise ValueError("campaigns: the bytes of the item side are not those that a side has")
    return side
