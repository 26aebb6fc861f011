"""`murmurec demo --mode`: a campaign of a population over a real broker, and what fails it."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import urllib.request
from dataclasses import replace

import numpy as np
import pytest

from stream_app.campaigns.public_side import decode_published
from stream_app.campaigns.rounds import Phase, StageState
from stream_app.campaigns.sealing import seal
from stream_app.cli import run
from stream_app.cli.demo.campaign_stages import StageRun, noise_ratio
from stream_app.errors import UserError
from stream_app.privacy.randomness import SystemSource
from stream_app.wire import key
from stream_app.wire.campaigns.contribution import encode_contribution
from stream_app.wire.campaigns.plan import decode_plan
from tests.fixtures.gateways import PACKED
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.kafka.test_demo import answer
from tests.stream_app.aggregation.world import keys_of, plan_of

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("mode", [pytest.param("central", marks=pytest.mark.nightly), "split"])
def test_a_demo_of_a_campaign_counts_everybody_once(kafka, environment, capsys, mode):
    environment(MURMUREC_CAMPAIGN_KEYS=f"{'ab' * 32},{'cd' * 32}")  # of another deployment
    command = ["demo", "--mode", mode, "--ratings", "4000", "--bootstrap", kafka.bootstrap]
    status, (printed, errors) = run(command), capsys.readouterr()
    # Of 130 people at epsilon 2 the lists are about as good as popular ones.
    assert status == int("below the most popular items" in errors), errors
    assert re.search(r"learned from [\d,]+ ratings of 130 people; no rating was sent", printed)
    assert "epsilon 2 at delta 1e-06" in printed
    assert re.search(r"lists: quality here 0\.\d{3}, popular 0\.\d{3} \(", printed)
    noise = re.search(r"stage 0 .*: 130 devices .* for (\d\.\d{3}) of the stated noise", printed)
    assert abs(float(noise[1]) - 1) < 0.05
    assert "every device counted once and paid once" in printed


@pytest.mark.thorough
def test_campaigns_go_on_with_visitors_until_the_demo_is_ended(kafka, tmp_path):
    """The second stage stays open for a visitor, who counts; then the third campaign begins."""
    command = [sys.executable, "-m", "stream_app.cli", "demo", "--mode", "split", "--keep"]
    command += ["--ratings", "4000", "--epsilon", "20", "--bootstrap", kafka.bootstrap]
    printed = []
    with (tmp_path / "errors").open("wb") as errors:
        demo = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
    try:
        for line in demo.stdout:
            printed.append(line)
            if line.startswith("the page: "):
                page = line.split()[2]
            if line.startswith("campaign 2 begins"):
                visit(page)
            if line.startswith("campaign 2: "):  # which is shown until the third begins
                until(lambda at=page: has_ended(at, 131), "the second campaign is shown")
            if line.startswith("campaign 3 begins"):
                demo.terminate()  # as Ctrl-C, which a process started in the background ignores
        demo.wait(PATIENCE_SECONDS)
    finally:
        demo.kill()
    assert demo.returncode == 0, "".join(printed) + (tmp_path / "errors").read_text()
    assert any(line.startswith("campaign 2: 131 people counted, 1 of them") for line in printed)


def visit(page):
    """Contribute to the second campaign as a browser does, with what the page serves alone."""
    assert json.loads(answer(page + "mechanisms"))["demo"]
    facts, pinned = (json.loads(answer(page + name)) for name in ("demo", "web/pinned.json"))
    assert (facts["mode"], facts["people"]) == ("split", 130)
    assert facts["quality"]["users"] > 100
    until(lambda: is_open(page), "the stage is open")
    found = json.loads(answer(page + "campaign"))
    plan = decode_plan(base64.b64decode(found["plan"]))
    assert (plan.number, found["contributions"]) == (2, None)
    assert (pinned["keys"], pinned["notice_seconds"]) == (list(plan.keys), 0)
    assert pinned["items"] == [f"{key(item):016x}" for item in plan.scope]
    published = decode_published(answer(page + "campaign/side"))
    assert published.side.number == 1
    contribute(page)


def contribute(page: str) -> None:
    """Contribute zeros to the campaign that the page shows."""
    plan = decode_plan(base64.b64decode(json.loads(answer(page + "campaign"))["plan"]))
    vector = np.zeros(plan.stages[0].size, np.int64)
    made = seal(plan, 0, bytes(16), vector, SystemSource())
    assert "offset" in json.loads(post(page + "contributions", encode_contribution(made)))


def is_open(page: str) -> bool:
    found = json.loads(answer(page + "campaign"))
    return found["phase"] == "open" and decode_plan(base64.b64decode(found["plan"])).number == 2


def has_ended(page: str, contributions: int) -> bool:
    found = json.loads(answer(page + "campaign"))
    return (found["phase"], found["contributions"]) == (None, contributions)


def post(url, body):
    request = urllib.request.Request(url, body, PACKED)
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as reply:
        return reply.read()


def test_options_of_ratings_are_refused_beside_a_campaign(environment, capsys):
    assert run(["demo", "--mode", "split", "--seconds", "9"]) == 2
    assert "--seconds: not with --mode" in capsys.readouterr().err


def test_a_stage_that_does_not_add_up_fails():
    fine = StageRun(0, "together", 30, 1000, 1.0, 1.0, 1.01)
    fine.check(30, 5000)
    with pytest.raises(UserError, match="30 contributions of 31 devices"):
        fine.check(31, 5000)
    replace(fine, contributions=31, visitors=1).check(30, 5000)
    with pytest.raises(UserError, match="32 contributions of 30 devices"):
        replace(fine, contributions=32, visitors=1).check(30, 5000)
    half = StageRun(0, "together", 30, 1000, 1.0, 1.0, 0.5)
    with pytest.raises(UserError, match=r"0\.500 of the standard deviation"):
        half.check(30, 5000)
    with pytest.raises(UserError, match="nan of the standard deviation"):
        StageRun(0, "together", 30, 1000, 1.0, 1.0).check(30, 5000)


def test_the_noise_is_what_is_left_of_the_exact_sum(rng):
    campaign = plan_of(keys_of(2), size=40_000, variance=900)
    stage = StageState(0, campaign.digest, campaign.stages[0], Phase.RELEASED)
    exact = rng.integers(-99, 99, 40_000)
    stage.result = exact + np.rint(rng.normal(0, 30 * 2**0.5, 40_000)).astype(np.int64)
    assert noise_ratio(campaign, stage, exact) == pytest.approx(1, abs=0.03)
    stage.result = exact + np.rint(rng.normal(0, 30, 40_000)).astype(np.int64)
    assert noise_ratio(campaign, stage, exact) == pytest.approx(0.5**0.5, abs=0.03)
