"""`murmurec certify`: what it proves, how it shows it, and what ends it with 1 or 2."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import pytest

from stream_app.cli import run
from stream_app.cli.research import certify
from stream_app.errors import UserError
from stream_app.privacy import registry

KEYS = {
    *("mechanism", "epsilon", "adjacency", "worst_log_ratio", "slack", "outputs", "seconds"),
    *("input_metric", "output_measure"),
}


@pytest.fixture(scope="module")
def everything():
    """Return the rows of all mechanisms, proved once for this module."""
    return list(certify.every())


@pytest.mark.thorough
def test_every_family_is_proved_at_seven_epsilons_on_five_and_ten_levels(everything):
    names = {row["mechanism"] for row in everything}
    for family in registry.families():
        for levels in (5, 10):
            for epsilon in ("1/10", "1/2", "1", "2", "3", "4", "8"):
                assert (f"{family}:{levels}:{epsilon}" in names) == (family != "none")
    assert len(names) == len(everything)


@pytest.mark.thorough
def test_every_row_is_a_proof_that_spends_nearly_all_of_its_epsilon(everything):
    for row in everything:
        assert set(row) >= KEYS
        assert row["output_measure"] == (
            "Approximate(MaxDivergence)" if "delta" in row else "MaxDivergence"
        )
        if "delta" in row:  # outside of a delta there is no worst quotient
            assert row["worst_log_ratio"] is row["slack"] is None
            assert 0 < row["delta_bound"] <= row["delta"]
            continue
        assert -1e-10 <= row["slack"] <= 0
        assert row["worst_log_ratio"] == pytest.approx(float(Fraction(row["epsilon"])), abs=1e-10)
        assert row["adjacency"] in ("value", "cell")
        assert 0 < row["seconds"] < 10


def test_all_as_json_is_one_list_that_a_program_can_read(capsys):
    assert run(["certify", "--all", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    pure = [row for row in rows if "delta" not in row]
    assert all(set(row) == KEYS for row in pure)
    assert {row["mechanism"] for row in pure} >= {"rr:5:2", "partition:10:1/10", "laplace:5:8"}


@pytest.mark.nightly
def test_all_proves_the_configured_allow_list_with_its_own_levels_and_thinning(tmp_path, capsys):
    file = tmp_path / "murmurec.toml"
    allowed = ["cell:7:3/2:1/10", "partition:9:5", "like:5:1/3:4", "none:5:inf"]
    file.write_text(f"[privacy]\nmechanisms = {json.dumps(allowed)}")
    assert run(["certify", "--all", "--config", str(file), "--json"]) == 0
    names = [row["mechanism"] for row in json.loads(capsys.readouterr().out)]
    assert names[:3] == allowed[:3]
    assert {"cell:7:1/10", "cell:7:8", "partition:9:2"} <= set(names)  # levels in use
    assert "none:5:inf" not in names
    assert run(["certify", "--all", "--config", str(file)]) == 0
    out = capsys.readouterr().out
    assert "none:5:inf is allowed and claims nothing" in out


@pytest.mark.thorough
def test_an_allowed_mechanism_that_does_not_exist_is_not_proved(tmp_path, capsys):
    file = tmp_path / "murmurec.toml"
    file.write_text('[privacy]\nmechanisms = ["rr:5:2", "rr:300:2"]')
    assert run(["certify", "--all", "--config", str(file), "--json"]) == 1
    out, err = capsys.readouterr()
    assert "2 to 256 levels" in err
    failed = [row["mechanism"] for row in json.loads(out) if "failed" in row]
    assert failed == ["rr:300:2"] + [
        f"rr:300:{epsilon}" for epsilon in certify.EPSILONS if epsilon != 2
    ]


def test_samples_and_thinning_are_proved(everything):
    names = {row["mechanism"] for row in everything}
    assert {"cell:5:5/2", "like:5:5/2"} <= names  # a sampled report of a budget of 20
    assert {"cell:5:2:1/4", "laplace:5:1/10:1/4", "ternary:5:8:1/4"} <= names


def test_a_family_at_an_epsilon_is_shown_with_its_digest(capsys):
    assert run(["certify", "--mechanism", "rr", "--epsilon", "0.5", "--levels", "10"]) == 0
    out = capsys.readouterr().out
    (proof,) = registry.parse("rr:10:1/2").certify()
    assert "rr:10:1/2" in out
    assert "inputs by DiscreteDistance of the value of a rating, releases by MaxDivergence" in out
    assert "a neighbour (distance 1) is at most 1/2 away" in out
    assert proof.digest in out
    assert "value" in out


def test_a_partition_is_proved_for_each_number_of_groups(capsys):
    assert run(["certify", "--mechanism", "partition", "--epsilon", "2"]) == 0
    assert capsys.readouterr().out.count("digest") == 4


def test_a_whole_id_is_proved_too(capsys):
    assert run(["certify", "--mechanism", "cell:5:2:1/4", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["mechanism"] == "cell:5:2:1/4"
    assert row["epsilon"] == "2"
    assert row["outputs"] == 6
    assert math.isclose(row["worst_log_ratio"], 2, abs_tol=1e-11)


def test_a_campaign_is_proved_with_the_least_epsilon_or_the_one_that_is_claimed(capsys):
    id = "gaussian:100:31809:300+1000:5600000:12000"
    assert run(["certify", "--mechanism", id, "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert set(row) == KEYS | {"delta", "delta_bound", "square"}
    assert (row["mechanism"], row["adjacency"], row["delta"]) == (id, "user", 1e-6)
    assert row["input_metric"] == "SymmetricDistance of the people of a sum"
    assert 0.999e-6 < row["delta_bound"] <= 1e-6
    assert run(["certify", "--mechanism", id, "--epsilon", row["epsilon"]]) == 0
    out = capsys.readouterr().out
    assert "2 noisy sums, mu^2 = 0.492970174: epsilon 2.9197 at delta 1e-5" in out
    assert out.count("digest") == 2
    least = float(row["epsilon"])
    assert run(["certify", "--mechanism", id, "--epsilon", f"{least - 0.001:.6f}"]) == 1
    assert "1 of 1 claims are not proved" in capsys.readouterr().err


def test_a_noisy_sum_is_proved_at_seven_epsilons(everything, capsys):
    rows = [row for row in everything if row["mechanism"].startswith("gaussian")]
    assert [row["epsilon"] for row in rows] == [str(epsilon) for epsilon in certify.EPSILONS]
    assert all(0.99e-6 < row["delta_bound"] <= row["delta"] == 1e-6 for row in rows)
    assert run(["certify", "--mechanism", "gaussian", "--epsilon", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["mechanism"] == rows[3]["mechanism"]


@pytest.mark.parametrize(
    "arguments",
    [[], ["--mechanism", "rr"], ["--mechanism", "gaussian:1:4:1", "--levels", "5"],
     ["--epsilon", "2"], ["--all", "--levels", "5"],
     ["--mechanism", "rr:5:2", "--config", "x.toml"],
     ["--all", "--mechanism", "rr", "--epsilon", "1"], ["--mechanism", "rr:5:2", "--epsilon", "2"],
     ["--mechanism", "rr", "--epsilon", "2", "--levels", "five"]],
    ids=" ".join,
)  # fmt: skip
def test_wrong_usage_ends_with_2(arguments, capsys):
    assert run(["certify", *arguments]) == 2
    assert "-" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [(["--mechanism", "rr", "--epsilon", "0"], "at most 64"),
     (["--mechanism", "rr", "--epsilon", "two"], "give a number"),
     (["--mechanism", "rr", "--epsilon", "2", "--levels", "1"], "2 to 256"),
     (["--mechanism", "gauss", "--epsilon", "2"], "choose one of rr"),
     (["--mechanism", "cell:5:2:2/4"], "canonical"),
     (["--mechanism", "gaussian"], "give an epsilon"),
     (["--mechanism", "gaussian:1:4"], "gaussian:bound:variance:size"),
     (["--mechanism", "gaussian:1:4:1", "--epsilon", "none"], "give a number"),
     (["--mechanism", "gaussian", "--epsilon", "65"], "at most 64"),
     (["--mechanism", "gaussian", "--epsilon", "1/100000"], "coarser grid"),
     (["--mechanism", "none"], "nothing to prove")],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)  # fmt: skip
def test_a_value_out_of_range_is_one_sentence_and_2(arguments, expected, capsys):
    assert run(["certify", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert expected in err
    assert err.count("\n") == 1


def test_a_claim_that_does_not_hold_is_a_row_and_a_refusal(capsys):
    def prove():
        raise ValueError("rr:5:2: an output distinguishes two inputs by 2.5 nats")

    rows = certify.attempt("rr:5:2", prove)
    assert set(rows[0]) == KEYS | {"failed"}
    for as_json in (True, False):
        with pytest.raises(UserError, match=r"1 of 1 claims are not proved.* 2\.5 nats"):
            certify.report(rows, as_json=as_json)
    out = capsys.readouterr().out
    assert "NOT PROVED" in out
    assert out.endswith("NOT EVERY CLAIM HOLDS: 0 of 1 claim proved in exact arithmetic\n")


def test_the_report_ends_with_a_verdict(capsys, everything):
    certify.report(everything, as_json=False)
    count = len(everything)
    verdict = f"every claim holds: {count} of {count} claims proved in exact arithmetic"
    assert capsys.readouterr().out.splitlines()[-1] == verdict


def test_a_proof_that_exceeds_its_claim_is_refused_however_it_came_about():
    row = dict.fromkeys(KEYS, 0.0) | {"mechanism": "rr:5:2", "adjacency": "value", "slack": 1e-12}
    with pytest.raises(UserError, match="rr:5:2"):
        certify.report([row], as_json=True)


def test_a_delta_that_is_not_proved_is_refused():
    row = dict.fromkeys(KEYS) | {"mechanism": "gaussian:9:2:1", "adjacency": "user", "seconds": 0.0}
    certify.report([row | {"delta": 0.1, "delta_bound": 0.1}], as_json=True)
    with pytest.raises(UserError, match="1 of 1 claims are not proved, the first: gaussian:9:2:1"):
        certify.report([row | {"delta": 0.1, "delta_bound": 0.11}], as_json=True)
