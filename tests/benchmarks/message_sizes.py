"""Ratings a second by the ratings in one message: what a message costs beside what it brings.

    decoded            bytes to columns, with every check of an event
    decoded, learned   and applied to the state of a worker, without Kafka, without noise: learner,
                       statistics, devices known, pairs left out (`head_items = 0`)

Runs are of at most 512 records or 8,192 ratings, as a worker cuts its rounds; one thread, CPU time.
Messages are of MovieLens-1M's users and items where the data is at hand, else of a population of
its size.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from stream_app import wire
from stream_app.privacy import registry
from stream_app.state.replica import Replica
from stream_app.state.spec import StateSpec
from stream_app.wire import Batch, RecordRun, decode_many
from tests.benchmarks.contest import Contender, contest
from tests.benchmarks.figure import Figure
from tests.benchmarks.pipeline import Load, messages

MECHANISM = "none:5:inf"
SIZES = {False: (1, 2, 5, 20, 50, 200, 1000), True: (1, 2, 5, 20, 50, 200)}  # by: is it JSON
RECORDS, RATINGS = 512, 8_192  # of a run
MESSAGES, MOST = 20_000, 400_000  # messages of a round, and ratings in them


def measure() -> list[Figure]:
    """Return the rates of all sizes and forms."""
    spec = StateSpec((registry.parse(MECHANISM),), partitions=1, head_items=0)
    contenders = []
    for as_json, sizes in SIZES.items():
        for each in sizes:
            runs = runs_of(each, as_json)
            ratings = each * sum(len(run.values) for run in runs)
            unit = "rating" if each == 1 else "ratings"
            form = "JSON" if as_json else "packed"
            for path, run in (("decoded", decode), ("decoded, learned", learn)):
                name = f"message {path}, {form}, {each:,} {unit}"
                contenders.append(
                    Contender(name, partial(run, runs, spec.intake), ratings, _prepared(path, spec))
                )
    return [each.rate("M ratings/s", 1e-6) for each in contest(contenders).values()]


def runs_of(each: int, as_json: bool) -> list[RecordRun]:
    """Return the messages of a round, in runs."""
    count = min(MESSAGES, MOST // each)
    pairs = list(messages(Load(each, count * each, MECHANISM, "", as_json)))
    size = max(1, min(RECORDS, RATINGS // each))
    runs = []
    for first in range(0, count, size):
        part = pairs[first : first + size]
        keys, values = [key for key, _ in part], [value for _, value in part]
        runs.append(RecordRun(0, range(first, first + len(part)), keys, values))
    return runs


def decode(runs: list[RecordRun], intake: wire.Intake, _replica: None = None) -> list[Batch]:
    """Decode all runs; an event that is rejected ends the benchmark."""
    batches = [decode_many(run, intake) for run in runs]
    if any(batch.reasons.any() for batch in batches):
        raise RuntimeError("an event of the benchmark was rejected: there is no rate")
    return batches


def learn(runs: list[RecordRun], intake: wire.Intake, replica: Replica) -> None:
    """Decode and apply all runs, each of them a round."""
    for number, batch in enumerate(decode(runs, intake), 1):
        replica.apply(batch)
        replica.end_round(number, [int(batch.offsets[-1]) + 1])


def _prepared(path: str, spec: StateSpec) -> Callable[[], Replica | None]:
    return (lambda: None) if path == "decoded" else (lambda: Replica(spec))
