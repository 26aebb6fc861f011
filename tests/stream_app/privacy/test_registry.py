"""Names of mechanisms: one channel has one id; people may write numbers as they like."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_app.privacy import registry
from stream_app.privacy.ratings.identity import Identity
from stream_app.privacy.ratings.like import Like
from stream_app.privacy.ratings.modified_laplace import ModifiedLaplace
from stream_app.privacy.ratings.partition_response import PartitionResponse
from stream_app.privacy.ratings.randomized_response import RandomizedResponse
from stream_app.privacy.ratings.randomized_response_missing import RandomizedResponseWithMissing
from stream_app.privacy.ratings.ternary import Ternary

IDS = r"\A(rr|none|partition|cell|ternary|laplace|like):[0-9]{1,3}:[0-9/.]{1,4}(:[0-9/.]{1,4})?\Z"


def test_an_id_is_parsed_into_its_mechanism() -> None:
    assert registry.parse("rr:5:2") == RandomizedResponse(5, Fraction(2))
    assert registry.parse("rr:10:1/2") == RandomizedResponse(10, Fraction(1, 2))
    assert registry.parse("partition:5:2") == PartitionResponse(5, Fraction(2))
    assert registry.parse("cell:5:2") == RandomizedResponseWithMissing(5, Fraction(2))
    assert registry.parse("ternary:5:1/10") == Ternary(5, Fraction(1, 10))
    assert registry.parse("laplace:10:8") == ModifiedLaplace(10, Fraction(8))
    assert registry.parse("cell:5:2:1/4") == RandomizedResponseWithMissing(
        5, Fraction(2), Fraction(1, 4)
    )
    assert registry.parse("like:5:2") == Like(5, Fraction(2), 3)
    assert registry.parse("like:10:1/2") == Like(10, Fraction(1, 2), 7)
    assert registry.parse("like:5:2:4") == Like(5, Fraction(2), 4)
    assert registry.parse("like:5:2:0") == Like(5, Fraction(2), 0)
    assert registry.parse("none:5:inf") == Identity(5)


@pytest.mark.parametrize(
    "text",
    ["", "rr", "rr:5", "rr:05:2", "rr:5:02", "rr:5:2/4", "rr:5:2/1", "rr:5:0.5", "rr:5:1/02",
     "rr:5:0", "rr:5:-1", "rr:5:nan", "rr:5:inf", "rr:5:1e308", "rr:5:65", "rr:5:1/0", "rr:1:2",
     "rr:257:2", "rr:5:2 ", " rr:5:2", "rr:5:2\n", "RR:5:2", "rr:5:2:1", "rr:٥:2", "none:5:2",
     "none:5:", "none:1:inf", "xy:5:2", "rr:5:" + "9" * 10_000,
     "rr:5:1000000000/1", 5, None, b"rr:5:2", "partition:12:2", "partition:1:2", "partition:5:2:3",
     "partition:5:inf", "cell:256:2", "cell:5:2:1", "cell:5:2:2/2", "cell:5:2:0", "cell:5:2:3/2",
     "cell:5:2:0.5", "cell:5:2:1/2:1", "cell:5:2:", "cell:5:2:1/1001", "cell:5:2:1/0",
     "cell:5:2:01/2", "cell:5:inf", "cell:5:0", "ternary:5:2:2/4", "ternary:256:1", "laplace:5:0",
     "laplace:33:1", "laplace:5:inf", "none:5:inf:1/2", "Cell:5:2", "blip:5000:20:8",
     "like:5:2:3", "like:5:2:5", "like:5:2:04", "like:5:2:1/4", "like:5:2:-1", "like:256:2",
     "like:5:inf", "like:5:0", "like:5:2:4:4", "like:1:2"],
    ids=lambda text: repr(text)[:20],
)  # fmt: skip
def test_anything_else_is_no_id(text: object) -> None:
    with pytest.raises(ValueError, match=r"mechanism|levels|epsilon|thinning|threshold") as caught:
        registry.parse(text)  # type: ignore[arg-type]
    assert len(str(caught.value)) < 250


@given(st.text(max_size=20) | st.from_regex(IDS))
def test_whatever_is_parsed_has_that_very_id(text: str) -> None:
    try:
        found = registry.parse(text)
    except ValueError:
        return
    assert found.id == text


@pytest.mark.parametrize(
    ("written", "id"),
    [("2", "rr:5:2"), ("2.0", "rr:5:2"), ("0.5", "rr:5:1/2"), ("1/2", "rr:5:1/2"),
     ("2/4", "rr:5:1/2"), (" 3 ", "rr:5:3"), (Fraction(1, 10), "rr:5:1/10"), ("0.1", "rr:5:1/10"),
     ("007", "rr:5:7")],
)  # fmt: skip
def test_people_write_epsilon_as_they_like(written: str | Fraction, id: str) -> None:
    assert registry.mechanism("rr", 5, written).id == id


@pytest.mark.parametrize(
    "written",
    ["0", "0.0", "-1", "nan", "inf", "1e308", "1e999999999", "", "two", "1/0", "0/5", "64.1", "0x2",
     "²", None, 0.5, Fraction(0), Fraction(-1, 2)],
    ids=repr,
)  # fmt: skip
def test_an_epsilon_that_is_none_is_refused_with_value_limit_and_fix(written: object) -> None:
    with pytest.raises(ValueError, match="64") as caught:
        registry.mechanism("rr", 5, written)  # type: ignore[arg-type]
    assert "epsilon" in str(caught.value)


def test_no_protection_has_no_epsilon() -> None:
    assert registry.mechanism("none", 5, None).epsilon is None
    assert registry.mechanism("none", 5, "inf").id == "none:5:inf"
    with pytest.raises(ValueError, match="leave it out"):
        registry.mechanism("none", 5, "2")


def test_the_refusal_of_an_unknown_family_lists_all() -> None:
    known = ", ".join(registry.families())
    assert {"rr", "partition", "cell", "ternary", "laplace", "none"} <= set(known.split(", "))
    with pytest.raises(ValueError, match=f"choose one of {known}$"):
        registry.mechanism("gauss", 5, "1")


@pytest.mark.parametrize(
    ("written", "id"),
    [(None, "cell:5:2"), ("1", "cell:5:2"), ("0.25", "cell:5:2:1/4"), ("2/8", "cell:5:2:1/4"),
     (Fraction(3, 4), "cell:5:2:3/4")],
)  # fmt: skip
def test_people_write_the_thinning_as_they_like(written: str | Fraction | None, id: str) -> None:
    assert registry.mechanism("cell", 5, "2", written).id == id


@pytest.mark.parametrize("written", ["0", "1.5", "-1", "nan", "", "1/0", 0.5, "1/2000", "999/1001"])
def test_a_thinning_that_is_none_is_refused_with_value_limit_and_fix(written: object) -> None:
    with pytest.raises(ValueError, match=r"thinning .*(1/4|1000)"):
        registry.mechanism("cell", 5, "2", written)  # type: ignore[arg-type]


@pytest.mark.parametrize("family", ["rr", "partition", "none", "like"])
def test_only_what_reports_stars_and_protects_presence_can_be_thinned(family: str) -> None:
    with pytest.raises(ValueError, match=r"only cell, ternary, laplace can .*; leave it out"):
        registry.mechanism(family, 5, None if family == "none" else "2", "1/4")


@pytest.mark.parametrize("family", ["rr", "cell", "none"])
def test_only_like_has_a_threshold(family: str) -> None:
    with pytest.raises(ValueError, match="threshold 3: only like asks for likes; leave it out"):
        registry.mechanism(family, 5, None if family == "none" else "2", threshold=3)


@pytest.mark.parametrize("written", [None, 3, "3"])
def test_the_default_threshold_is_left_out_of_the_id(written: int | str | None) -> None:
    assert registry.mechanism("like", 5, "2", threshold=written).id == "like:5:2"


@pytest.mark.parametrize("written", ["x", "", "-1", "3.0", "1/4", "٣", 3.0, True])
def test_a_threshold_that_is_no_index_is_refused(written: object) -> None:
    with pytest.raises(ValueError, match=r"threshold .*: give the index of a level, as 3"):
        registry.mechanism("like", 5, "2", threshold=written)  # type: ignore[arg-type]
