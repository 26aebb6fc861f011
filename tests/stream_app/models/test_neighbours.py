"""Neighbours over released profiles: against the obvious version, and the edges."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from stream_app.models.neighborhood import packed_overlaps
from stream_app.models.neighborhood import profile_neighbours as neighbours
from stream_app.models.neighborhood.profile_neighbours import ProfileNeighbours
from stream_app.privacy.profiles.blip import Blip
from stream_app.privacy.profiles.jlt import Jlt
from stream_app.privacy.profiles.profile_mechanism import ProfileMechanism, posterior_sizes
from stream_app.privacy.randomness import SeededSource

MICRO = Fraction(1, 10**6)
CATALOGUE = np.arange(300, dtype=np.uint64)
CLEAR = Blip(4000, 10, None)
EVERY = (
    CLEAR,
    Blip(2000, 4, Fraction(8)),
    Jlt(500, Fraction(16), MICRO),
    Jlt(500, None, Fraction(0)),
)
every = pytest.mark.parametrize("mechanism", EVERY, ids=lambda mechanism: mechanism.id)


def two_tastes(users: int) -> list[np.ndarray]:
    """Profiles of 40 items each: every second user's from the first half of the catalogue."""
    rng = np.random.default_rng(users)
    return [
        np.sort(rng.choice(CATALOGUE[:150] if user % 2 else CATALOGUE[150:], 40, replace=False))
        for user in range(users)
    ]


def filled(
    mechanism: ProfileMechanism, profiles: list[np.ndarray], seed: int = 1
) -> tuple[ProfileNeighbours, np.ndarray, np.ndarray]:
    source = SeededSource(seed)
    released = np.stack([mechanism.release(items, source) for items in profiles])
    devices = np.arange(1000, 1000 + len(profiles), dtype=np.uint64)
    found = ProfileNeighbours(mechanism, len(CATALOGUE))
    found.put_many(devices, released)
    return found, devices, released


def naive_similarity(mechanism: ProfileMechanism, released: np.ndarray) -> np.ndarray:
    """One pair after the other, sizes drawn to their mean."""
    read = mechanism.coordinates(released)
    sizes = mechanism.sizes(read, len(CATALOGUE))
    spread = max(0.0, sizes.var() - mechanism.size_variance(float(sizes.mean())))
    sizes = posterior_sizes(
        mechanism, sizes, float(sizes.mean()), math.sqrt(spread), len(CATALOGUE)
    )
    found = np.full((len(read), len(read)), -np.inf)
    for a in range(len(read)):
        for b in range(len(read)):
            if a != b:
                both = mechanism.overlaps(read[a : a + 1], read[b : b + 1])[0, 0]
                found[a, b] = both / math.sqrt(sizes[a] * sizes[b])
    return found


@every
def test_the_nearest_are_those_of_the_obvious_version(
    mechanism: ProfileMechanism, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "_BLOCK", 7)  # several blocks, the last one short
    found, devices, released = filled(mechanism, two_tastes(30))
    near = found.nearest(devices, 5)
    expected = np.sort(naive_similarity(mechanism, released), axis=1)[:, :-6:-1]
    np.testing.assert_allclose(near.similarities, expected, rtol=1e-4, atol=1e-5)
    assert (near.devices != devices[:, None]).all()


@every
def test_people_of_one_taste_are_near_each_other_and_get_its_items(
    mechanism: ProfileMechanism,
) -> None:
    found, devices, _ = filled(mechanism, two_tastes(60))
    same = (found.nearest(devices, 10).devices - devices[:, None]) % 2 == 0
    assert same.mean() > 0.7
    scores = found.scores(devices, CATALOGUE, k=10)
    best = CATALOGUE[np.argsort(-scores, axis=1, kind="stable")[:, :20]]
    ours = (best < 150) == (np.arange(60) % 2 == 1)[:, None]
    assert ours.mean() > 0.7


def test_without_noise_scores_are_about_the_share_of_the_neighbours_that_have_it() -> None:
    profiles = [CATALOGUE[:40]] * 3 + [CATALOGUE[100:140]] * 3
    found, devices, _ = filled(CLEAR, profiles)
    scores = found.scores(devices, CATALOGUE, k=2)
    assert scores[0, :40].mean() == pytest.approx(1, abs=0.1)
    assert scores[0, 100:140].mean() == pytest.approx(0, abs=0.1)
    assert found.popular(CATALOGUE)[:40].mean() == pytest.approx(0.5, abs=0.1)


def test_where_noise_hides_the_neighbours_every_user_gets_popular_items() -> None:
    found, devices, _ = filled(Blip(2000, 20, Fraction(1, 100)), two_tastes(40))
    scores, popular = found.scores(devices, CATALOGUE, k=5), found.popular(CATALOGUE)
    assert np.isfinite(scores).all()
    assert (np.abs(scores - popular).max(axis=1) < 1e-3 * np.abs(popular).max()).mean() > 0.5


def test_the_newest_profile_of_a_device_counts() -> None:
    a, b = CATALOGUE[:40], CATALOGUE[100:140]
    found, devices, released = filled(CLEAR, [a, b, a])
    assert found.nearest(devices[:1], 1).devices.tolist() == [[1002]]
    before = found.popular(CATALOGUE)[0]
    found.put_many(devices[:1], released[1:2])
    assert found.popular(CATALOGUE)[0] < before - 0.2
    assert len(found) == 3
    assert found.nearest(devices[:1], 1).devices.tolist() == [[1001]]
    # And where one comes twice in one call, the later of the two.
    found.put_many(devices[[0, 0]], released[[1, 0]])
    assert found.nearest(devices[:1], 1).devices.tolist() == [[1002]]


def test_profiles_come_in_any_number_of_calls() -> None:
    profiles = two_tastes(70)
    at_once, devices, released = filled(CLEAR, profiles)
    one_by_one = ProfileNeighbours(CLEAR, len(CATALOGUE))
    for device, profile in zip(devices, released, strict=True):
        one_by_one.put_many(np.array([device]), profile[None])
    for found in (at_once, one_by_one):
        assert (
            found.nearest(devices, 3).devices.tolist()
            == at_once.nearest(devices, 3).devices.tolist()
        )
    np.testing.assert_array_equal(at_once.sizes(), one_by_one.sizes())


def test_equal_similarities_go_by_the_key_of_the_device() -> None:
    _, devices, released = filled(CLEAR, [CATALOGUE[:40]] * 5)
    found = ProfileNeighbours(CLEAR)
    found.put_many(devices[::-1], released)  # those that came first have the larger keys
    assert found.nearest(devices[2:3], 4).devices.tolist() == [[1000, 1001, 1003, 1004]]


def test_sizes_are_drawn_to_their_mean_by_as_much_as_they_are_noise() -> None:
    """Of 200 equal profiles every difference is noise: its deviation, about 36, falls below a
    third. Power: sizes that are not drawn keep all of it."""
    mechanism = Blip(2000, 20, Fraction(2))
    found, _, released = filled(mechanism, [CATALOGUE[:40]] * 200)
    raw = mechanism.sizes(mechanism.coordinates(released), len(CATALOGUE))
    assert found.sizes().std() < raw.std() / 3


def test_an_empty_profile_is_similar_to_no_other() -> None:
    found, devices, _ = filled(CLEAR, [CATALOGUE[:0], CATALOGUE[:40], CATALOGUE[:0]])
    near = found.nearest(devices, 2)
    assert np.isfinite(near.similarities).all()
    assert near.similarities[0].max() == pytest.approx(0, abs=0.05)


def test_fewer_neighbours_than_requested_are_returned() -> None:
    found, devices, _ = filled(CLEAR, [CATALOGUE[:40]] * 2)
    assert found.nearest(devices, 10).devices.shape == (2, 1)
    assert found.nearest(devices, 0).devices.shape == (2, 0)
    alone, device, _ = filled(CLEAR, [CATALOGUE[:40]])
    assert alone.nearest(device, 5).devices.shape == (1, 0)
    np.testing.assert_allclose(
        alone.scores(device, CATALOGUE)[0], alone.popular(CATALOGUE), atol=1e-6
    )
    empty = ProfileNeighbours(CLEAR)
    assert len(empty) == 0
    assert empty.sizes().shape == (0,)
    assert (empty.popular(CATALOGUE) == 0).all()


def test_an_invalid_input_is_refused_in_one_sentence() -> None:
    with pytest.raises(ValueError, match="uniform at epsilon 0"):
        ProfileNeighbours(Blip(64, 2, Fraction(0)))
    with pytest.raises(ValueError, match="at least 1"):
        ProfileNeighbours(CLEAR, 0)
    found, devices, released = filled(CLEAR, [CATALOGUE[:40]] * 2)
    with pytest.raises(ValueError, match="device 7: has released no profile"):
        found.nearest(np.array([7], np.uint64), 1)
    with pytest.raises(ValueError, match="give one each"):
        found.put_many(devices[:1], released)
    with pytest.raises(ValueError, match="bytes"):
        found.put_many(devices, released[:, :-1])


@every
def test_a_removed_profile_leaves_what_the_others_alone_would_be(
    mechanism: ProfileMechanism,
) -> None:
    profiles = two_tastes(12)
    found, devices, released = filled(mechanism, profiles)
    found.put_many(devices[:3], released[3:6])  # replaced, and then replaced by what was
    found.put_many(devices[:3], released[:3])
    for place in (11, 0, 5):
        assert found.remove(int(devices[place]))
        assert not found.remove(int(devices[place]))
    kept = np.setdiff1d(np.arange(12), (11, 0, 5))
    alone = ProfileNeighbours(mechanism, len(CATALOGUE))
    alone.put_many(devices[kept], released[kept])
    assert len(found) == 9
    np.testing.assert_allclose(
        found.scores(devices[kept], CATALOGUE, k=3),
        alone.scores(devices[kept], CATALOGUE, k=3),
        rtol=1e-4,
        atol=1e-5,
    )
    near, expected = (each.nearest(devices[kept], 4) for each in (found, alone))
    np.testing.assert_array_equal(near.devices, expected.devices)
    with pytest.raises(ValueError, match="released no profile"):
        found.nearest(devices[:1], 2)
    for device in devices[kept].tolist():
        found.remove(device)
    assert len(found) == 0
    assert found.nearest(np.zeros(0, np.uint64), 3).devices.size == 0


@pytest.mark.parametrize("length", [8, 13, 5000])
def test_counts_of_bits_give_the_overlaps_and_readings_of_coordinates(length: int) -> None:
    made, source = Blip(length, 2, Fraction(3)), SeededSource(4)
    released = np.stack([made.release(items[:20], source) for items in two_tastes(6)])
    read = made.coordinates(released)
    np.testing.assert_allclose(
        packed_overlaps.overlaps(made, released[:2], released),
        made.overlaps(read[:2], read),
        rtol=1e-3,
        atol=1e-3,
    )
    evidence = made.evidence(read, np.full(6, 20.0))
    np.testing.assert_allclose(
        packed_overlaps.read(made, evidence, CATALOGUE),
        evidence @ made.probes(CATALOGUE),
        rtol=1e-3,
        atol=1e-4,
    )
    assert packed_overlaps.read(made, evidence, CATALOGUE[:0]).shape == (6, 0)
