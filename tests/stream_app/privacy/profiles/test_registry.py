"""Profile mechanisms by name, what all of them promise, and the rows of certificates."""

from __future__ import annotations

import copy
from fractions import Fraction

import numpy as np
import pytest

from stream_app.privacy.profiles.blip import Blip
from stream_app.privacy.profiles.jlt import Jlt, JltPaper
from stream_app.privacy.profiles.profile_mechanism import ProfileMechanism
from stream_app.privacy.profiles.profile_registry import (
    FAMILIES,
    mechanism,
    parse,
)
from stream_app.privacy.randomness import SeededSource

EVERY = (
    Blip(5000, 20, Fraction(8)),
    Blip(64, 1, Fraction(1, 2)),
    Blip(100, 4, Fraction(2), 7),
    Blip(100, 4, None),
    Jlt(100, Fraction(2), Fraction(1, 10**6)),
    Jlt(100, Fraction(2), Fraction(1, 10**6), 7),
    Jlt(100, None, Fraction(0)),
    JltPaper(100, Fraction(2), Fraction(1, 10)),
)
ITEMS = np.array([5, 9, 2**63 + 1], np.uint64)
every = pytest.mark.parametrize("made", EVERY, ids=lambda made: made.id)


@every
def test_an_id_names_its_mechanism(made: ProfileMechanism) -> None:
    assert parse(made.id) == made
    assert made.id.split(":")[0] == made.family
    assert made.family in FAMILIES
    assert len(made.id) <= 64  # what travels on the wire


@every
def test_a_mechanism_is_a_frozen_value(made: ProfileMechanism) -> None:
    with pytest.raises(AttributeError):
        made.length = 3  # type: ignore[misc]
    assert {made, parse(made.id), copy.copy(made)} == {made}


@every
def test_a_release_has_its_size_can_be_read_and_is_likely_enough(made: ProfileMechanism) -> None:
    released = made.release(ITEMS, SeededSource(3))
    assert released.dtype == np.uint8
    assert released.shape == (made.profile_bytes,)
    read = made.coordinates(released[None])
    assert read.shape == (1, made.length)
    assert made.evidence(read, np.array([3.0])).shape == (1, made.length)
    assert made.probes(ITEMS).shape == (made.length, 3)
    assert np.isfinite(made.log_likelihood(released, ITEMS))
    again = made.release(ITEMS, SeededSource(3))
    np.testing.assert_array_equal(released, again)


@every
def test_the_order_of_the_items_does_not_matter(made: ProfileMechanism) -> None:
    first, second = (made.release(items, SeededSource(3)) for items in (ITEMS, ITEMS[::-1].copy()))
    np.testing.assert_array_equal(first, second)


@every
def test_nothing_was_estimated_of_an_empty_store(made: ProfileMechanism) -> None:
    none = made.coordinates(np.zeros((0, made.profile_bytes), np.uint8))
    assert made.sizes(none).shape == (0,)
    assert made.overlaps(none, none).shape == (0, 0)


@every
def test_without_noise_memberships_exceed_the_items_not_in_the_profile(
    made: ProfileMechanism,
) -> None:
    if made.epsilon is not None:
        return
    read = made.coordinates(made.release(ITEMS, SeededSource(3))[None])
    asked = np.append(ITEMS, np.arange(100, 130, dtype=np.uint64))
    found = (made.evidence(read, np.array([3.0])) @ made.probes(asked))[0]
    assert found[:3].min() > 0.6
    assert found[3:].mean() == pytest.approx(0, abs=0.2)


@pytest.mark.parametrize(
    "id",
    [
        "blip:05000:20:8", "blip:5000:20:16/2", "blip:5000:20", "blip:5000:20:8.0",
        "blip:5000:20:8:01", "jlt:1000:2", "jlt:1000:2:0.1", "jlt:1000:2:2/20", "jlt:1000:inf:1/10",
        "rr:5:2", "", "BLIP:64:4:1", "blip:5000:20:1/0", "jlt:1000:2:1/1000000\n",
    ],
)  # fmt: skip
def test_what_is_no_canonical_id_is_refused(id: str) -> None:
    with pytest.raises(ValueError, match=r"epsilon|delta|id is|canonical"):
        parse(id)


def test_people_write_what_they_like() -> None:
    assert mechanism("blip", "0.5").id == "blip:5000:20:1/2"
    assert mechanism("blip", None, length=64, hashes=2).id == "blip:64:2:inf"
    assert mechanism("jlt", "2").id == "jlt:1000:2:1/1000000"
    assert mechanism("jlt", "2", delta="1e-5").id == "jlt:1000:2:1/100000"
    assert mechanism("jlt", "inf").id == "jlt:1000:inf:0"
    assert mechanism("jltpaper", "2").id == "jltpaper:1000:2:1/10"


@pytest.mark.parametrize(
    ("family", "epsilon", "delta", "message"),
    [
        ("rr", "2", None, "there are blip, jlt, jltpaper"),
        ("blip", "two", None, "epsilon 'two': give a number"),
        ("blip", "1/0", None, "epsilon '1/0'"),
        ("blip", "2", "1/10", "blip has none"),
        ("jlt", "2", "none", "delta 'none'"),
    ],
)
def test_what_is_no_mechanism_is_one_sentence(
    family: str, epsilon: str, delta: str | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        mechanism(family, epsilon, delta=delta)
