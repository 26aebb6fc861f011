"""After the warm-up a worker compiles nothing more: not on the event loop, where heartbeats
wait."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import msgspec
import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry

from stream_app.agents.warmup import warm_up
from stream_app.campaigns.planning import Outline, plan
from stream_app.kernels.stream.signatures import verify_all
from stream_app.monitoring.gauges import Gauges
from stream_app.monitoring.metrics import Metrics
from stream_app.replay.signature_check import SignatureCheck
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.recommender import Recommender
from stream_app.serving.served_side import Ingredients
from stream_app.state.campaigns.part import CampaignPart
from stream_app.state.replica import Replica, StateSpec
from stream_app.wire import CampaignPlan, Released, decode_many
from stream_app.wire.signatures import Claim
from tests.fixtures.replicas import ALL, SMALL
from tests.fixtures.streams import EVERY_FAMILY, Published, events, log, publish, run_of

pytestmark = pytest.mark.thorough


def compiled() -> dict[str, int]:
    """Return how many versions of each kernel there are."""
    found: dict[str, int] = {}
    for kernel in gc.get_objects():
        if isinstance(kernel, Dispatcher):
            name = f"{kernel.py_func.__module__}.{kernel.py_func.__name__}"
            found[name] = found.get(name, 0) + len(kernel.signatures)
    return found


@pytest.mark.parametrize(("index", "head_items"), [("auto", 1500), ("auto", 0), ("qolsh", 0)])
@pytest.mark.parametrize("design", [SMALL, ALL], ids=["public presence", "every family"])
@pytest.mark.parametrize("model", ["hybrid", pytest.param("sketch", marks=pytest.mark.nightly)])
def test_nothing_is_compiled_after_the_warm_up(
    model: str, design: StateSpec, index: str, head_items: int, rng: np.random.Generator
) -> None:
    design = replace(design, model=model, head_items=head_items)
    warm_up(design, index)
    before = compiled()
    replica = Replica(design)
    recommender = Recommender(replica, Catalogue(), index)
    gauges = Gauges(Metrics(CollectorRegistry()), replica, recommender)
    families = EVERY_FAMILY[: len(design.mechanisms)]
    made = events(rng, 2000, devices=1300, items=2500, families=families)
    records = [publish(event, json=bool(rng.integers(2))) for event in made]
    records.insert(50, Published(0, b"k", b"junk"))
    for p, part in enumerate(log(records)):
        for start in range(0, len(part), 100):
            stop = min(start + 100, len(part))
            batch = decode_many(run_of(part, start, stop, p), design.intake)
            outcome = replica.apply(batch)
            gauges.watch(outcome)
            recommender.mark_stale(outcome.rows)
    replica.end_round(1, [len(part) for part in log(records)])
    gauges.publish()
    gauges.publish_fill()
    for device in (made[0].device, bytes(16)):
        recommender.answer(device, 100)
        recommender.recall(device, 10)
    if ingredients := Ingredients.taken_from(replica):
        recommender.adopt(ingredients.derived())
        for device in (made[0].device, bytes(16)):
            recommender.answer(device, 100)
    assert (recommender.side is not None and len(recommender.side) > 1000) == bool(head_items)
    assert replica.model_digest() != replica.ledger_digest()
    assert compiled() == before


def test_no_kind_of_stage_is_compiled_after_the_warm_up_of_a_worker_with_campaigns() -> None:
    warm_up(replace(SMALL, privacy_mode="split"))
    before = compiled()
    outline = Outline(Fraction(4), Fraction(1, 10**6), 2, together_items=5)
    campaign = plan(outline, range(30))
    random, part = np.random.default_rng(1), CampaignPart(2)
    keys = ("11" * 32, "22" * 32)
    campaign = msgspec.structs.replace(campaign, keys=keys)
    assert part.apply(CampaignPlan(plan=campaign)) is None
    for index, stage in enumerate(campaign.stages):
        noisy = random.integers(-999, 999, stage.size).astype("<i4").tobytes()
        entry = Released(plan=campaign.digest, stage=index, contributions=9, integers=noisy)
        assert part.apply(entry) is None
    assert compiled() == before


def test_the_check_of_signatures_is_compiled_where_devices_sign(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checked: list[int] = []

    def called(self: SignatureCheck, claims: Sequence[Claim]) -> NDArray[np.bool_]:
        checked.append(len(claims))
        return verify(self, claims)

    verify = SignatureCheck.__call__
    monkeypatch.setattr(SignatureCheck, "__call__", called)
    warm_up(SMALL)
    assert not checked
    warm_up(replace(SMALL, devices="signed"))
    assert checked == [1]
    assert len(verify_all.signatures) == 1
