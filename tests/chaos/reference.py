"""The replica that is never killed: it follows the same log in this process and keeps its digests
at every recent cut."""

from __future__ import annotations

import time
from collections import OrderedDict

from stream_app.deployment import Deployment, new_replica
from stream_app.kafka.clients import Connection
from stream_app.replay.follower import Follower
from stream_app.replay.recompute import take
from stream_app.state.replica import StateSpec
from stream_app.wire import DigestReport, Forget, Topics
from tests.fixtures.waiting import PATIENCE_SECONDS

Digests = tuple[str, str]
_KEPT = 4000


class Reference:
    """Follows the log when it is asked; `wrong` are the digest reports that it contradicts."""

    def __init__(self, bootstrap: str, topics: Topics, spec: StateSpec) -> None:
        self.replica = new_replica(spec)
        self._follower = Follower(Deployment(Connection(bootstrap), topics, spec))
        self._digests: OrderedDict[int, Digests] = OrderedDict()
        self._digests[0] = self._now()
        self.digest_reports = 0
        self.wrong: list[str] = []

    def _now(self) -> Digests:
        return self.replica.model_digest(), self.replica.ledger_digest()

    def at(self, cut: int) -> Digests:
        """Return the digests of model and ledger at a cut, following the log up to there."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while cut not in self._digests:
            before = self.replica.cut
            if time.monotonic() > deadline or cut < before - _KEPT:
                raise AssertionError(f"cut {cut}: the reference stays at {before}")
            self.follow(0.05)
            if self.replica.cut > before:  # slow is not stuck
                deadline = time.monotonic() + PATIENCE_SECONDS
        return self._digests[cut]

    def follow(self, seconds: float = 0.0) -> None:
        """Apply the rest of the log."""
        for piece in self._follower.poll(seconds):
            assert not isinstance(piece.entry, Forget), "no device is forgotten in this test"
            take(self.replica, piece)
            if piece.cut is not None:
                self._digests[piece.cut.number] = self._now()
                if len(self._digests) > _KEPT:
                    self._digests.popitem(last=False)
            if isinstance(piece.entry, DigestReport):
                self._compare(piece.entry)

    def _compare(self, digest_report: DigestReport) -> None:
        self.digest_reports += 1
        ours = self._digests.get(digest_report.cut)
        if ours is not None and ours != (digest_report.model, digest_report.ledger):
            self.wrong.append(
                f"the checkpoint at cut {digest_report.cut} holds {digest_report.model} "
                f"{digest_report.ledger}, the log gives {ours[0]} {ours[1]}"
            )

    def close(self) -> None:
        """Leave the broker."""
        self._follower.close()
