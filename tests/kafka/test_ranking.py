"""A worker on a real broker learns what goes together, measures it, and serves by it."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from consumers.recommendations import Recommendations
from stream_app.errors import UserError
from tests.conftest import Kafka
from tests.fixtures import forks
from tests.fixtures.clusters import HALF, device_of, half_of, liked
from tests.fixtures.gateway_beside import served
from tests.fixtures.streams import publish
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.conftest import Send, Start, ends_of

pytestmark = pytest.mark.kafka

DEVICES, FIRST = 120, 4


def test_lists_follow_tastes_and_are_measured_as_better_than_popular_ones(
    start: Start, send: Send, kafka: Kafka, topics: str
) -> None:
    rng = np.random.default_rng(11)
    order = [rng.permutation(half_of(number)).tolist() for number in range(DEVICES)]
    worker = start()
    first = [publish(liked(number, order[number][:FIRST], 1)) for number in range(DEVICES)]
    send(first)
    until(lambda: worker.metrics()["item_side_items"] == 2 * HALF, "an item side")
    assert worker.metrics()["list_method{method=links}"] == 1
    assert np.isnan(worker.metrics()["list_ndcg_ratio{list=served}"])
    # The lists are measured by what devices like on another day.
    later = [
        publish(replace(liked(number, order[number][FIRST : FIRST + 4], 2), epoch=1))
        for number in range(DEVICES)
    ]
    send(later)
    worker.wait_for(ends_of([*first, *later]))
    until(lambda: worker.metrics()["list_ndcg_ratio{list=popular}"] > 0, "lists that are scored")
    measured = worker.metrics()
    with Recommendations(kafka.bootstrap, topics) as ask:
        answers = [ask.best(device_of(number).hex(), 4, PATIENCE_SECONDS) for number in range(2)]
        stranger = ask.best("0" * 32, 4, PATIENCE_SECONDS)
    for number, answer in enumerate(answers):
        ranking = answer.method.partition("/")[0]
        assert ranking in ("links", "learned")
        assert set(answer.items) == set(order[number][FIRST + 4 :])
        assert answer.ndcg is not None
        assert answer.ndcg_popular is not None
        assert answer.ndcg > answer.ndcg_popular > 0
        assert measured["list_ndcg_ratio{list=served}"] > 0
        assert set(answer.because) <= set(order[number][: FIRST + 4])
    assert stranger.method == "popular"
    assert set(stranger.because) == {None}
    with served(kafka.bootstrap, topics) as gateway:
        page = gateway.page(f"/recommendations/{device_of(0).hex()}?k=4")
        near = gateway.page("/similar?item=0&k=4")
    assert (page["method"], page["ndcg"]) == (answers[0].method, answers[0].ndcg)
    command = ["ask", "--device", device_of(0).hex()]
    command += ["--bootstrap", kafka.bootstrap, "--prefix", topics]
    shown = forks.run(command).stdout
    assert re.search(r"for the next visit, nDCG@10 \.\d\d \(popular \.\d\d\)", shown)
    assert re.search(r"by (links|learned)", shown)
    assert re.search(r"because you rated \d", shown)
    assert {row["because"] for row in page["items"]} <= set(order[0][: FIRST + 4])
    with Recommendations(kafka.bootstrap, topics) as ask:
        similar = ask.similar(0, 4, 10)
        # A new item side may be derived between two answers.
        for items in (set(similar.items), {row["item"] for row in near["items"]}):
            assert items
            assert items <= set(half_of(0)) - {0}
        assert (similar.method, near["user"]) == ("ease", None)
        with pytest.raises(UserError, match="no rating of this item"):
            ask._asked(None, 4, 10, None, {"similar_to": "elsewhere"})
    command = ["ask", "--bootstrap", kafka.bootstrap, "--prefix", topics, "-k", "3"]
    shown = forks.run([*command, "--similar-to", "0"]).stdout
    assert re.search(r"by ease; as of cut \d+", shown)
    refused = forks.run([*command, "--similar-to", "nothing"])
    assert refused.returncode == 1
    assert "no rating of this item has come" in " ".join(refused.stderr.split())
