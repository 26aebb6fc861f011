"""The alerts of `deploy/alerts.yml` that hold at this moment, without Prometheus.

A rule there wants a condition to hold for some minutes, or looks back for hours; here it is looked
at as it is now, over the workers that answer. Rules that need a longer past (checkpoints, campaigns
that stand still, numbers used again) are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from stream_app.monitoring.exposition import Exposition
from stream_app.monitoring.live_frame import Look, WorkerLook, p99, rate

SECONDS_BEHIND, SLOW_SECONDS, OWED_SECONDS = 60.0, 0.5, 30.0
FREE_BYTES = 2e9
SHARE = 0.05  # of the records rejected, of the queries without an answer
WORSE, BELOW, LEAST_DEVICES = 1.02, 0.95, 200
RECALL, LEAKAGE_NATS = 0.8, 0.1


class _Pair(NamedTuple):
    """A worker that answers now, and the look at it before."""

    before: WorkerLook | None
    after: WorkerLook
    numbers: Exposition


def standing(before: Look | None, after: Look) -> tuple[str, ...]:
    """Return the names of the alerts that hold, worst first."""
    pairs = [
        _Pair(before.workers.get(url) if before else None, look, look.numbers)
        for url, look in after.workers.items()
        if look.numbers is not None
    ]
    return tuple(_deployment(after, pairs)) + tuple(
        name for name, holds in _ANY.items() if any(holds(pair) for pair in pairs)
    )


def _deployment(after: Look, pairs: Sequence[_Pair]) -> Iterator[str]:
    """Yield the alerts that are about all workers together."""
    if len(pairs) < len(after.workers):
        yield "MurmurecWorkerDown"
        return  # how many clocks there are is not known
    clocks = sum(pair.numbers.number("clock_owner") == 1 for pair in pairs)
    if clocks > 1:
        yield "MurmurecTwoClocks"
    elif pairs and not clocks:
        yield "MurmurecNoClock"


def _above(numbers: Exposition, name: str, limit: float, **labels: str) -> bool:
    return (numbers.number(name, **labels) or 0.0) > limit


def _share(pair: _Pair, part: float | None, name: str) -> bool:
    """Return whether a rate is a too large share of that of a counter by outcome."""
    whole = rate(pair.before, pair.after, name, "outcome")
    return part is not None and whole is not None and whole > 0 and part > SHARE * whole


def _rejects(pair: _Pair) -> bool:
    part = rate(pair.before, pair.after, "rejected_total", "reason")
    return _share(pair, part, "events_total")


def _unanswered(pair: _Pair) -> bool:
    part = rate(pair.before, pair.after, "queries_total", "outcome", ("expired", "busy"))
    return _share(pair, part, "queries_total")


def _above_baseline(pair: _Pair) -> bool:
    error = pair.numbers.number("prediction_rmse", window="recent", kind="debiased")
    baseline = pair.numbers.number("prediction_rmse_baseline", kind="debiased")
    return error is not None and baseline is not None and error > WORSE * baseline


def _below_popular(pair: _Pair) -> bool:
    served, popular = (
        pair.numbers.number("list_ndcg_ratio", list=x) for x in ("served", "popular")
    )
    known = served is not None and popular is not None and served < BELOW * popular
    return known and _above(pair.numbers, "list_devices", LEAST_DEVICES)


def _lowest(pair: _Pair, name: str, label: str, limit: float) -> bool:
    return min(pair.numbers.by(name, label).values(), default=limit) < limit


_ANY: dict[str, Callable[[_Pair], bool]] = {
    "MurmurecWorkerNotReady": lambda each: each.numbers.number("ready") == 0,
    "MurmurecConsumerLag": lambda each: _above(
        each.numbers, "consumer_lag_seconds", SECONDS_BEHIND
    ),
    "MurmurecReplicasDiffer": lambda each: _above(each.numbers, "replicas_differ_total", 0),
    "MurmurecDiskFull": lambda each: _lowest(each, "disk_free_bytes", "folder", FREE_BYTES),
    "MurmurecQueriesUnanswered": _unanswered,
    "MurmurecPartyAway": lambda each: (
        max(each.numbers.by("campaign_party_waiting_seconds", "party").values(), default=0.0)
        > OWED_SECONDS
    ),
    "MurmurecRecordsRejected": _rejects,
    "MurmurecErrorAboveBaseline": _above_baseline,
    "MurmurecDrift": lambda each: each.numbers.total("drift_detected_total") > 0,
    "MurmurecListsBelowPopular": _below_popular,
    "MurmurecRecallLow": lambda each: _lowest(each, "query_recall_ratio", "method", RECALL),
    "MurmurecLeakageHigh": lambda each: _above(each.numbers, "leakage_kl_nats", LEAKAGE_NATS),
    "MurmurecQueriesSlow": lambda each: (p99(each.before, each.after) or 0.0) > SLOW_SECONDS,
}
NAMED = (*_ANY, "MurmurecWorkerDown", "MurmurecTwoClocks", "MurmurecNoClock")
