"""The numbers of a worker as the stream shows them, from a worker's own page."""

from __future__ import annotations

import json
from math import inf, nan

import hypothesis
import msgspec
import pytest
from hypothesis import strategies
from prometheus_client import CollectorRegistry

from stream_app.gateway.contract.bodies import StreamStatus
from stream_app.gateway.reads.statistics import (
    NAMES,
    NotAWorker,
    Numbers,
    Rate,
    ratings_of,
    status_of,
)
from stream_app.monitoring.collectors import together
from stream_app.monitoring.metric_table import METRICS
from stream_app.monitoring.metrics import Metrics


def exposition(*, measured: bool) -> str:
    """Return the page of a worker, as soon as it has started or with all that it measures."""
    metrics = Metrics(CollectorRegistry())
    metrics.ready(ready=measured)
    if measured:
        metrics.round_applied(4812, 0.1, 0.0)
        metrics.ratings(learned=900, held_out=100, clipped=30, duplicate=5000)
        metrics.entities(items=40, devices=77)
        metrics.rmse("debiased", "recent", 0.9)
        metrics.rmse("debiased", "all", 1.0)
        metrics.rmse("reported", "recent", 3.0)
        metrics.rmse_baseline("debiased", 1.1)
        metrics.rmse_baseline("reported", 4.0)
        metrics.ranking("learned", 0.16, 0.06, ndcg_error=0.02)
        metrics.kl(0.01)
        metrics.privacy_mode("local", "split")
    return metrics.exposition().decode()


def status(text: str) -> StreamStatus:
    return status_of(Numbers(text), kafka=True, waiting_for=None, rate=3.5)


def test_every_number_is_the_one_of_its_metric() -> None:
    found = status(exposition(measured=True))
    drift = found.drift
    assert drift == pytest.approx(-0.1)
    assert found == StreamStatus(
        kafka=True,
        worker=True,
        ready=True,
        waiting_for=None,
        cut=4812,
        ratings_per_second=3.5,
        ratings=1000,
        devices=77,
        rmse=0.9,
        rmse_baseline=1.1,
        ndcg=0.16,
        ndcg_popular=0.06,
        ndcg_error=0.02,
        list_method="learned",
        kl_nats=0.01,
        drift=drift,
        privacy="local",
    )


def test_what_is_not_measured_yet_is_null_and_never_nan() -> None:
    found = status(exposition(measured=False))
    assert (found.worker, found.ready) == (True, False)
    assert found == StreamStatus(True, True, False, ratings=0, ratings_per_second=3.5)
    fields = json.loads(msgspec.json.encode(found))
    assert set(fields) == set(StreamStatus.__struct_fields__)
    assert fields["rmse"] is None


def test_every_name_is_one_of_the_table_of_metrics() -> None:
    assert {row.published_name for row in METRICS} >= NAMES


PAGES = {
    "nothing": "",
    "a web page": "<html><body>It works!</body></html>",
    "another program": "# HELP up 1\n# TYPE up gauge\nup 1\n",
    "no value": "murmurec_ready\n",
    "no number": "murmurec_ready one\n",
    "half a line": 'murmurec_ready 1\nmurmurec_list_method{method="bl',
    "half a label": "murmurec_ready 1\nmurmurec_ratings_total{outcome} 5\n",
    "braces": "murmurec_ready{{{{ 1\n",
    "nan": "murmurec_ready NaN\n",
}


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_a_page_that_no_worker_sends_is_refused(page: str) -> None:
    with pytest.raises(NotAWorker):
        Numbers(page)


@hypothesis.given(
    strategies.lists(
        strategies.tuples(strategies.sampled_from(sorted(NAMES)), strategies.text(max_size=40))
    )
)
def test_any_text_is_refused_or_gives_numbers_that_json_can_hold(
    rows: list[tuple[str, str]],
) -> None:
    text = "\n".join(["murmurec_ready 1", *(f"{name}{rest}" for name, rest in rows)])
    try:
        found = status(text)
    except NotAWorker:
        return
    json.loads(msgspec.json.encode(found), parse_constant=pytest.fail)


@pytest.mark.parametrize("value", [nan, inf, -inf, 1e300])
def test_a_number_that_json_or_javascript_cannot_hold_is_null(value: float) -> None:
    page = f"murmurec_ready 1\nmurmurec_devices {value}\nmurmurec_cut_number {value}\n"
    page += f'murmurec_ratings_total{{outcome="learned"}} {value}\n'
    numbers = Numbers(page)
    found = status(page)
    assert (found.devices, found.cut, found.ratings, ratings_of(numbers)) == (None,) * 4


def test_a_label_that_is_no_plain_word_is_not_passed_on() -> None:
    for word in ("<script>", "ab" * 40, "Blend", "", "a b"):
        assert (
            status(f'murmurec_ready 1\nmurmurec_list_method{{method="{word}"}} 1\n').list_method
            is None
        )
    found = status('murmurec_ready 1\nmurmurec_privacy_mode_info{privacy_mode="local+split"} 1\n')
    assert found.privacy == "local+split"


def test_the_rate_is_that_of_the_newest_seconds_and_starts_over_after_a_restart() -> None:
    rate = Rate()
    assert rate.per_second(100, 10.0) is None
    assert rate.per_second(150, 11.0) == 50
    for second in range(12, 30):
        assert rate.per_second(150, float(second)) is not None
    assert rate.per_second(150, 30.0) == 0
    assert rate.per_second(350, 31.0) == 40
    assert rate.per_second(5, 32.0) is None
    assert rate.per_second(25, 34.0) == 10
    assert rate.per_second(None, 35.0) is None
    assert rate.per_second(30, 36.0) is None
    assert rate.per_second(30, 36.0) is None


def test_the_numbers_of_several_shards_are_those_of_one_worker() -> None:
    pages = {}
    for shard, (rmse, mode) in enumerate(((0.9, "none"), (1.0, "local"))):
        metrics = Metrics(CollectorRegistry())
        metrics.ready(True)
        metrics.round_applied(40 + shard, 0.1, 0.0)
        metrics.ratings(learned=900, held_out=100)
        metrics.entities(items=40, devices=50 + shard)
        metrics.rmse("debiased", "recent", rmse)
        metrics.lag(shard, 2.0 * shard)
        metrics.privacy_mode(mode, "local")
        pages[shard] = metrics.exposition(shard=str(shard)).decode()
    found = status(together(pages).decode())
    assert (found.worker, found.ready, found.cut) == (True, True, 41)
    assert (found.ratings, found.devices, found.rmse) == (2000, 101, pytest.approx(0.95))
    assert (found.lag_records, found.lag_seconds, found.privacy) == (1, 2.0, "none")
    assert found.kl_nats is None
    metrics.ready(False)
    pages[1] = metrics.exposition(shard="1").decode()
    assert not status(together(pages).decode()).ready
