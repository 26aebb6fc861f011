"""Metrics of a worker's checkpoints; the table in `metrics.py` has the names and meanings."""

from __future__ import annotations

from math import nan

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SOURCE = "About this process, not computed from ratings."
_FREEZE_BUCKETS = (0.0001, 0.0003, 0.001, 0.002, 0.003, 0.005, 0.01, 0.03, 0.1)
_CHECKPOINT_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


class CheckpointMetrics:
    """The metrics of checkpoints in one registry."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._freeze = Histogram(
            "murmurec_freeze_duration_seconds",
            f"How long the stream stood still to copy changed pages. {_SOURCE}",
            buckets=_FREEZE_BUCKETS,
            registry=registry,
        )
        self._duration = Histogram(
            "murmurec_checkpoint_duration_seconds",
            f"From the copy of the pages to the acknowledged manifest. {_SOURCE}",
            buckets=_CHECKPOINT_BUCKETS,
            registry=registry,
        )
        self._bytes = Counter(
            "murmurec_checkpoint_bytes",
            f"Bytes written as checkpoints. {_SOURCE}",
            registry=registry,
        )
        self._cut, self._time, self._recovery = (
            Gauge(f"murmurec_{name}", f"{meaning} {_SOURCE}", registry=registry)
            for name, meaning in (
                ("checkpoint_cut_number", "Cut of the newest durable checkpoint."),
                ("checkpoint_timestamp_seconds", "When it became durable, seconds since 1970."),
                ("recovery_duration_seconds", "How long the last recovery took, without replay."),
            )
        )
        self._differ = Counter(
            "murmurec_replicas_differ",
            f"Cuts at which this replica differed from a checkpoint. {_SOURCE}",
            registry=registry,
        )
        for gauge in (self._cut, self._time, self._recovery):
            gauge.set(nan)  # not measured yet, which is not the same as zero

    def frozen(self, seconds: float) -> None:
        """Enter how long the stream stood still for one copy."""
        self._freeze.observe(seconds)

    def durable(self, cut: int, now: float, seconds: float, sent_bytes: int) -> None:
        """Enter a checkpoint that took `seconds`; `now` is the time of day since 1970."""
        self._duration.observe(seconds)
        self._bytes.inc(sent_bytes)
        self._cut.set(cut)
        self._time.set(now)

    def recovered(self, seconds: float) -> None:
        """Enter how long a recovery took."""
        self._recovery.set(seconds)

    def differs(self) -> None:
        """Count a cut at which this replica holds something else than the checkpoint."""
        self._differ.inc()
