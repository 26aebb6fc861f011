"""Records of the profile topic, decoded and counted, into the newest profile of each device.

    read = applied + older + reused + duplicate + no_room + removed + rejected

(`models/neighborhood/live_profiles.py` has the first five.) A record without a value removes the
profile of its device, as the compaction of the topic does. Profiles are no part of the state: they
decide the answers to one kind of query and nothing that is learned, so each worker reads the
compacted topic from its beginning, and the counts are those of this worker since it started.

One thread reads, another answers: each holds the lock while it uses the profiles.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from stream_app.models.neighborhood.live_profiles import LiveProfiles, Taken
from stream_app.wire import Reason, WireError, decode_profile

REMOVED, REJECTED = "removed", "rejected"
OUTCOMES = (*(each.value for each in Taken), REMOVED, REJECTED)
_PSEUDONYM = re.compile(rb"[0-9a-f]{32}")


class ProfileIntake:
    """Takes records one by one, from one thread."""

    def __init__(self, profiles: LiveProfiles, *, accept_tests: bool) -> None:
        self._profiles = profiles
        self._sizes = {name: each.profile_bytes for name, each in profiles.mechanisms.items()}
        self._accept_tests = accept_tests
        self._lock = Lock()
        self._forgotten: frozenset[bytes] = frozenset()
        self.outcomes: Counter[str] = Counter()
        self.rejected: Counter[Reason] = Counter()
        self.complete = False
        """Whether the topic was read to its end."""

    @contextmanager
    def held(self) -> Iterator[LiveProfiles]:
        """Give the profiles; nothing changes them meanwhile."""
        with self._lock:
            yield self._profiles

    def take(self, record_key: bytes | None, value: bytes | None) -> Reason | None:
        """Take one record and count it; return why it is rejected, None where it is not."""
        try:
            outcome = self._outcome(record_key, value)
        except WireError as error:
            self.reject(error.reason)
            return error.reason
        self.outcomes[outcome] += 1
        return None

    def reject(self, reason: Reason) -> None:
        """Count one rejected record."""
        self.outcomes[REJECTED] += 1
        self.rejected[reason] += 1

    def forget(self, devices: Iterable[bytes]) -> None:
        """Reject the records of these devices from now on, and drop their profiles."""
        with self._lock:
            self._forgotten = frozenset(devices)
            for device in self._forgotten:
                self._profiles.remove(device)

    def summary(self) -> dict[str, Any]:
        """Return the counts, for /state; without the lock, which a list may hold for long."""
        counts = {outcome: self.outcomes[outcome] for outcome in OUTCOMES}
        return {
            "devices": len(self._profiles),
            "mechanisms": list(self._profiles.mechanisms),
            "complete": self.complete,
            "read": sum(counts.values()),
            **counts,
            "reasons": {str(reason): n for reason, n in sorted(dict(self.rejected).items())},
        }

    def _outcome(self, record_key: bytes | None, value: bytes | None) -> str:
        if value is None and record_key is not None and _PSEUDONYM.fullmatch(record_key):
            with self._lock:
                self._profiles.remove(bytes.fromhex(record_key.decode()))
            return REMOVED
        event = decode_profile(record_key, value, self._sizes, accept_tests=self._accept_tests)
        with self._lock:
            if event.device in self._forgotten:
                raise WireError(Reason.FORGOTTEN)
            return self._profiles.put(event.device, event.seq, event.mechanism, event.profile)
