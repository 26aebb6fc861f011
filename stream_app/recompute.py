"""Recomputing the state from the topics: the oracle against which any worker can be checked.

It follows the same log in the same order with the same replica as a worker does, and stops at a
cut.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from stream_app.design import replica_of
from stream_app.errors import Refusal
from stream_app.follower import Follower
from stream_app.replica import Design, Replica
from stream_app.wire import Topics

_STALL_SECONDS = 15.0


def recompute(
    bootstrap: str,
    extra: Mapping[str, str],
    topics: Topics,
    design: Design,
    at_cut: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Replica:
    """Return the replica at cut `at_cut`, or at the newest cut; `progress` hears (records done,
    records in the log).

    Refuses a cut that the log does not have, and a log that lacks records its cuts name.
    """
    follower = Follower(bootstrap, extra, topics, design.intake)
    try:
        replica = replica_of(design)
        total = sum(follower.log_ends()[0])
        moved = time.monotonic()
        while at_cut is None or replica.cut < at_cut:
            before = follower.rounds.received[:], replica.cut
            for piece in follower.poll(0.05):
                if piece.batch is not None:
                    replica.apply(piece.batch)
                if piece.cut is not None:
                    replica.end_round(piece.cut.number, piece.cut.ends)
                    if replica.cut == at_cut:
                        return replica
            newest = follower.rounds.newest_cut[0]
            if follower.cuts_at_end and follower.rounds.number == newest:
                if at_cut is not None:
                    raise Refusal(f"cut {at_cut}: the newest cut of {topics.cuts} is {newest}")
                return replica
            if progress is not None:
                progress(sum(replica.ends), total)
            if (follower.rounds.received, replica.cut) != before:
                moved = time.monotonic()
            elif time.monotonic() - moved > _STALL_SECONDS:
                raise Refusal(
                    f"{topics.ratings} holds fewer records than cut {newest} names: records are "
                    "missing, and the state cannot be recomputed; restore the topic"
                )
        return replica
    finally:
        follower.close()
