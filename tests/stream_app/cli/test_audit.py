"""`murmurec audit`: input that is refused in one sentence, without a broker; campaigns attacked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from prometheus_client.parser import text_string_to_metric_families

from research.audits import false_devices
from stream_app.aggregation.party import Party
from stream_app.campaigns.verified import norm_proof
from stream_app.cli import run
from stream_app.privacy import registry
from stream_app.privacy.randomness import RandomSource
from stream_app.privacy.ratings.randomized_response import RandomizedResponse
from stream_app.privacy.ticket import admitted
from tests.stream_app.aggregation.world import without_noise

WIRE = ["audit", "wire", "--bootstrap", "localhost:1"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--alpha", "0"], "alpha 0.0: a probability above 0 and below 1"),
        (["--budget", "-1"], "budget -1.0: a person's epsilon is above 0"),
        (["--rounds", "0"], "rounds 0: a cell is reported 1 to 1000 times"),
        (["--delta", "0"], "delta 0: give 1e-15 to 1"),
        (["--delta", "nan"], "delta nan: give 1e-15 to 1"),
        (["--memory", "0"], "--memory 0: give 1 to 1000000 MB"),
        (["--rotate-every", "0"], "rotate every 0: give 1 to 4096 epochs"),
        (["--canary", "ann"], "canary ann: give a pseudonym of 32 hex characters"),
        (["--canary", "0" * 32], "no allowed mechanism takes this input"),
        (["--canary", "0" * 32 + ":9"], "no allowed mechanism takes this input"),
        (["--allow", "rr:05:2"], "rr:05:2"),
        (["--scope", "absent.txt"], "absent.txt: cannot be read"),
        (["--scope", "empty.txt"], "empty.txt: holds no item"),
        (["--enrolled", "bad.txt"], "bad.txt: line 2: a pseudonym has 32 lower-case hex"),
    ],
)
def test_bad_input_is_refused_in_one_sentence_before_anything_is_read(
    options: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.txt").write_text("\n")
    Path("bad.txt").write_text("0" * 32 + "\nann\n")
    assert run([*WIRE, *options]) in (1, 2)
    shown = capsys.readouterr()
    assert sentence in shown.err
    assert "Traceback" not in shown.err
    assert len(shown.err.strip().splitlines()) == 1
    assert shown.out == ""


def test_a_broker_that_is_away_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*WIRE, "--canary", "0" * 32 + ":4"]) == 1
    assert "localhost:1" in capsys.readouterr().err


CANARY = ["audit", "canary", "--bootstrap", "localhost:1", "--allow", "rr:5:2"]


def test_devices_of_this_release_are_tested_without_a_broker(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call = [*CANARY, "--reports", "1000", "--allow", "cell:5:2", "--allow", "none:5:inf", "--json"]
    file = tmp_path / "audit.prom"
    assert run([*call, "--metrics", str(file)]) == 0
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [row["claim"].split(":")[0] for row in found] == ["rr", "rr", "cell", "cell"]
    assert {row["verdict"] for row in found} == {"ok"}
    (family,) = text_string_to_metric_families(file.read_text())
    assert family.name == "murmurec_audit_epsilon_lower_bound"
    published = [(sample.labels["mechanism"], sample.value) for sample in family.samples]
    assert published == [
        (name, found[row]["figures"]["epsilon"]) for name, row in (("rr:5:2", 0), ("cell:5:2", 2))
    ]


def test_a_file_for_prometheus_that_cannot_be_written_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "absent" / "audit.prom"
    assert run([*CANARY, "--reports", "100", "--metrics", str(file)]) == 1
    said = capsys.readouterr().err
    assert f"--metrics {file}: cannot be written" in said
    assert len(said.strip().splitlines()) == 1
    assert run([*CANARY, "--reports", "100", "--metrics", "."]) == 1
    assert "--metrics .: is a folder; name a file in it" in capsys.readouterr().err


def test_an_installed_mechanism_that_draws_less_noise_is_exit_code_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault: what is named and certified as rr:5:2 draws from the table of rr:5:3."""
    other = registry.parse("rr:5:3").table()

    def release(
        self: RandomizedResponse, inputs: NDArray[np.uint8], source: RandomSource
    ) -> NDArray[np.uint8]:
        return other.draw(inputs, admitted(source, self, len(inputs)))

    monkeypatch.setattr(RandomizedResponse, "release", release)
    assert run([*CANARY, "--reports", "1000"]) == 1
    shown = capsys.readouterr()
    assert "rr:5:2: canaries show no epsilon above 2" in shown.err
    assert len(shown.err.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--reports", "99"], "--reports 99: give 100 to 1000000"),
        (["--alpha", "2"], "alpha 2.0: a probability above 0 and below 1"),
        (["--canary", "ann:4"], "canary ann:4: give a pseudonym"),
        (["--canary", "0" * 32 + ":5"], "no allowed mechanism takes this input"),
    ],
)
def test_canaries_that_cannot_be_run_are_refused_in_a_sentence(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*CANARY, *options]) == 2
    assert words in capsys.readouterr().err


def test_mechanisms_that_claim_nothing_leave_nothing_to_test(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["audit", "canary", "--allow", "none:5:inf"]) == 1
    assert "nothing was tested" in capsys.readouterr().err


def test_a_campaign_is_attacked_stage_by_stage(capsys: pytest.CaptureFixture[str]) -> None:
    call = ["audit", "campaign", "--epsilon", "8", "--mode", "central"]
    assert run([*call, "--items", "4", "--runs", "10", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["epsilon"], found["runs"], found["mode"]) == (8, 10, "central")
    assert [each["kind"] for each in found["stages"]] == ["together"]
    assert all(each["holds"] for each in found["findings"])


def test_a_false_claim_of_a_campaign_is_exit_code_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fault: parties add no noise."""
    monkeypatch.setattr(Party, "_with_noise", lambda self, stage, total: without_noise(total))
    call = ["audit", "campaign", "--epsilon", "8", "--mode", "central"]
    assert run([*call, "--items", "4", "--runs", "30"]) == 1
    shown = capsys.readouterr()
    assert "violated" in shown.out
    assert "claims violated" in shown.err


def test_false_devices_are_refused_and_one_that_is_counted_is_exit_code_1(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    call = ["audit", "campaign", "--false-devices", "--items", "4", "--runs", "3"]
    assert run(call) == 0
    shown = capsys.readouterr().out
    assert "one residue moved anywhere" in shown
    assert "0 of 3 honest proofs were refused" in shown
    # The fault: a party looks at the last product alone.
    whole = norm_proof.accepted
    monkeypatch.setattr(false_devices, "accepted", lambda one, other: whole(bare(one), bare(other)))
    assert run(call) == 1
    assert "false devices were counted, the first:" in capsys.readouterr().err


def bare(message: bytes) -> bytes:
    """Return a message without its state and its linear relation."""
    return message[:36] + bytes(len(message) - 36)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--false-devices", "--runs", "0"], "--runs 0"),
        (["--false-devices", "--items", "1"], "--items 1"),
        (["--mode", "local"], "choose central or split"),
        (["--items", "1"], "--items 1"),
        (["--runs", "3"], "3 runs"),
        (["--epsilon", "-1"], "--epsilon"),
        (["--delta", "0"], "--delta"),
    ],
)
def test_a_campaign_that_cannot_be_attacked_is_refused_in_a_sentence(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["audit", "campaign", "--epsilon", "8", *options]) == 2
    shown = capsys.readouterr()
    assert words in shown.err
    assert "Traceback" not in shown.err
