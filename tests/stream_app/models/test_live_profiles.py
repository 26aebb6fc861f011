"""The newest profile of each device: which record counts, which devices are held."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from stream_app.models.neighborhood.live_profiles import LiveProfiles, Taken
from stream_app.privacy.profiles.blip import Blip
from stream_app.privacy.profiles.jlt import Jlt
from stream_app.privacy.randomness import SeededSource

BLIP = Blip(1000, 2, Fraction(20))
JLT = Jlt(100, Fraction(8), Fraction(1, 10**6))
ITEMS = np.arange(60, dtype=np.uint64)


def device(number: int) -> bytes:
    return number.to_bytes(16, "big")


def profile(items: np.ndarray, made: Blip | Jlt = BLIP, seed: int = 1) -> bytes:
    return made.release(items, SeededSource(seed)).tobytes()


def filled(devices: int, most: int = 100) -> LiveProfiles:
    found = LiveProfiles((BLIP, JLT), most, 7)
    for number in range(devices):
        half = ITEMS[:30] if number % 2 else ITEMS[30:]
        found.put(device(number), 1, BLIP.id, profile(half, seed=number))
    return found


def test_the_last_record_counts_whatever_its_number() -> None:
    found = LiveProfiles((BLIP, JLT), 10, 7)
    first, second = profile(ITEMS[:9]), profile(ITEMS[9:18])
    put = [
        (5, BLIP.id, first),
        (5, BLIP.id, first),
        (5, BLIP.id, second),
        (4, BLIP.id, first),
        (2**62, JLT.id, profile(ITEMS[:9], JLT)),
        (6, BLIP.id, second),
    ]
    assert [found.put(device(1), *each) for each in put] == [
        *(Taken.APPLIED, Taken.DUPLICATE, Taken.REUSED, Taken.OLDER),
        *(Taken.APPLIED, Taken.OLDER),  # a forged jump costs no more than until the next record
    ]
    assert len(found) == 1
    mechanism = found.mechanism_of(device(1))
    assert mechanism is not None
    assert mechanism.id == BLIP.id
    assert found.others(device(1)) == found.others(device(2)) == 0
    assert found.mechanism_of(device(2)) is None
    other = LiveProfiles((BLIP, JLT), 10, 7)
    other.put(device(1), 6, BLIP.id, second)  # what is left after compaction
    for each in (found, other):
        each.put(device(2), 1, BLIP.id, first)
    np.testing.assert_allclose(
        found.scores(device(2), ITEMS, 5), other.scores(device(2), ITEMS, 5), atol=1e-6
    )


def test_devices_of_one_taste_get_its_items() -> None:
    found = filled(20)
    for number in range(4):
        scores = found.scores(device(number), ITEMS, 5)
        own, other = (ITEMS < 30, ITEMS >= 30) if number % 2 else (ITEMS >= 30, ITEMS < 30)
        assert scores[own].mean() > scores[other].mean() + 0.3


def test_of_too_many_devices_the_same_are_held_in_any_order() -> None:
    """And what is removed makes room again."""
    rng, contents = np.random.default_rng(2), profile(ITEMS[:5])
    held = []
    for _ in range(3):
        found = LiveProfiles((BLIP,), 20, 7)
        taken = [
            found.put(device(number), 1, BLIP.id, contents)
            for number in rng.permutation(200).tolist()
        ]
        assert len(found) == 20
        assert Taken.NO_ROOM in taken
        held.append({n for n in range(200) if found.mechanism_of(device(n)) is not None})
    assert held[0] == held[1] == held[2]
    smallest = sorted(range(200), key=lambda n: found.key(device(n)))[:20]
    assert held[0] == set(smallest)
    other_seed = LiveProfiles((BLIP,), 20, 8)
    assert sorted(range(200), key=lambda n: other_seed.key(device(n)))[:20] != smallest
    assert found.remove(device(smallest[0]))
    assert not found.remove(device(smallest[0]))
    left_out = next(n for n in range(200) if n not in held[0])
    assert found.put(device(left_out), 1, BLIP.id, contents) == Taken.APPLIED


def test_a_flood_leaves_a_bounded_table() -> None:
    found, contents = filled(10, most=30), profile(ITEMS[:5])
    for number in range(1000, 6000):
        found.put(device(number), 1, BLIP.id, contents)
        if number % 7 == 0:
            found.remove(device(number))
    assert len(found) <= 30
    assert found._keys == sorted(found._held)
    assert sum(len(table) for table in found._tables.values()) == len(found)


def test_what_cannot_be_held_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        LiveProfiles((BLIP, BLIP), 10, 7)
    with pytest.raises(ValueError, match="epsilon above 0"):
        LiveProfiles((Blip(1000, 2, Fraction(0)),), 10, 7)
    with pytest.raises(ValueError, match="at least 1"):
        LiveProfiles((BLIP,), 0, 7)
