"""The alerts of `deploy/alerts.yml` that hold at this moment, without Prometheus.

A rule there wants a condition to hold for some minutes, or looks back for hours; here it is looked
at as it is now, over the workers that answer. Rules that need a longer past (checkpoints, campaigns
that stand still, numbers used again) are left out. A number that is not known is NaN, with which no
comparison holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import nan

from stream_app.monitoring.live_frame import Watched


def standing(workers: Mapping[str, Watched]) -> tuple[str, ...]:
    """Return the names of the alerts that hold, worst first."""
    alone = (n for n, holds in _OF_ONE.items() if any(holds(each) for each in workers.values()))
    return (*_of_all([*workers.values()]), *alone)


def _of_all(workers: list[Watched]) -> Iterator[str]:
    """Yield the alerts that are about all workers together."""
    clocks = sum(_most(each, "clock_owner") == 1 for each in workers)
    if any(each.after.numbers is None for each in workers):
        yield "MurmurecWorkerDown"  # how many clocks there are is not known
    elif clocks > 1:
        yield "MurmurecTwoClocks"
    elif workers and not clocks:
        yield "MurmurecNoClock"


def _most(worker: Watched, name: str) -> float:
    return max(worker.numbers.all(name), default=nan)


def _least(worker: Watched, name: str) -> float:
    return min(worker.numbers.all(name), default=nan)


def _ratio(part: float | None, whole: float | None) -> float:
    return part / whole if part is not None and whole else nan


def _of_baseline(worker: Watched) -> float:
    error = worker.numbers.number("prediction_rmse", window="recent", kind="debiased")
    return _ratio(error, worker.numbers.number("prediction_rmse_baseline", kind="debiased"))


def _of_popular(worker: Watched) -> float:
    lists = (worker.numbers.number("list_ndcg_ratio", list=each) for each in ("served", "popular"))
    return _ratio(*lists)


def _unanswered(worker: Watched) -> float:
    part = worker.rate("queries_total", "outcome", ("expired", "busy"))
    return _ratio(part, worker.rate("queries_total", "outcome"))


def _rejected(worker: Watched) -> float:
    part = worker.rate("rejected_total", "reason")
    return _ratio(part, worker.rate("events_total", "outcome"))


_OF_ONE: dict[str, Callable[[Watched], bool]] = {
    "MurmurecWorkerNotReady": lambda its: _most(its, "ready") == 0,
    "MurmurecConsumerLag": lambda its: _most(its, "consumer_lag_seconds") > 60,
    "MurmurecReplicasDiffer": lambda its: _most(its, "replicas_differ_total") > 0,
    "MurmurecDiskFull": lambda its: _least(its, "disk_free_bytes") < 2e9,
    "MurmurecQueriesUnanswered": lambda its: _unanswered(its) > 0.05,
    "MurmurecPartyAway": lambda its: _most(its, "campaign_party_waiting_seconds") > 30,
    "MurmurecRecordsRejected": lambda its: _rejected(its) > 0.05,
    "MurmurecErrorAboveBaseline": lambda its: _of_baseline(its) > 1.02,
    "MurmurecDrift": lambda its: _most(its, "drift_detected_total") > 0,
    "MurmurecListsBelowPopular": lambda its: (
        _of_popular(its) < 0.95 and _most(its, "list_devices") > 200
    ),
    "MurmurecRecallLow": lambda its: _least(its, "query_recall_ratio") < 0.8,
    "MurmurecLeakageHigh": lambda its: _most(its, "leakage_kl_nats") > 0.1,
    "MurmurecQueriesSlow": lambda its: (its.p99() or 0.0) > 0.5,
}
NAMED = (*_OF_ONE, "MurmurecWorkerDown", "MurmurecTwoClocks", "MurmurecNoClock")
