"""Proofs of a norm: honest ones hold, false ones do not, and a party sees what it could draw."""

from __future__ import annotations

import os

import numpy as np
import pytest

from research.audits.false_devices import cheats, honest, random_cheats, refused
from stream_app.campaigns.verified import field, norm_proof, rows
from stream_app.campaigns.verified.field import P
from stream_app.campaigns.verified.layout import AUX, MASKS, MAX_SIZE, Layout
from stream_app.campaigns.verified.norm_proof import (
    MESSAGE_BYTES,
    STATE_BYTES,
    Statement,
    accepted,
    check,
    prove,
)
from stream_app.campaigns.verified.transcript import HASH_BYTES
from stream_app.privacy.randomness import SystemSource
from stream_app.wire.campaigns.round_log import CHECK_BYTES, MOST_CHECKS
from stream_app.wire.limits import MAX_ROUND_BYTES
from tests.naive import sum_check

CHEATS = cheats()


def secrets():
    return os.urandom(32), os.urandom(32)


def both(statement, payloads):
    return [check(statement, party, payload) for party, payload in enumerate(payloads)]


def at_bound(size, bound, rng):
    """Return a vector with a norm just below the bound."""
    found = rng.normal(size=size)
    found = np.trunc(found / np.linalg.norm(found) * bound).astype(np.int64)
    assert (found**2).sum() <= bound**2
    return found


def vectors(size, bound, rng):
    alone, alternating = np.zeros(size, np.int64), np.zeros(size, np.int64)
    alone[-1] = -bound
    count = min(size, 4)
    alternating[:count] = [bound // 2 * (-1) ** n for n in range(count)]
    return np.zeros(size, np.int64), alone, alternating, at_bound(size, bound, rng)


@pytest.mark.parametrize(("size", "bound"), [(1, 1), (3, 863), (97, 100), (2102, 2048), (5000, 7)])
def test_an_honest_vector_is_proved_and_comes_back(size, bound, rng):
    statement = Statement(b"it", size, bound)
    for vector in vectors(size, bound, rng):
        payloads = prove(statement, vector, *secrets())
        assert tuple(map(len, payloads)) == statement.payload_bytes
        found = both(statement, payloads)
        assert accepted(found[0].message, found[1].message).all()
        shares = [found[party].share for party in (0, 1)]
        assert field.centered(field.add(*shares)).tolist() == vector.tolist()
        for party in (0, 1):
            again = norm_proof.share_of(statement, party, payloads[party])
            assert again.tolist() == shares[party].tolist()


def test_places_are_distinct_whatever_the_size():
    for size in (1, 2, 100, 2101, 2102, 14_437, 14_438, MAX_SIZE):
        layout = Layout(size)
        places = np.flatnonzero(layout.placed(np.ones(size, np.uint64)))
        taken = np.concatenate((places, layout.bits, layout.masks))
        assert len(places) == size
        assert len(np.unique(taken)) == size + AUX == len(taken)
        assert taken.max() < layout.length < 2 * (size + AUX)


@pytest.mark.parametrize("name", CHEATS)
@pytest.mark.parametrize("size", [40, 3000])
def test_a_false_device_is_refused(name, size):
    assert refused(
        Statement(b"it", size, 2048), CHEATS[name](Statement(b"it", size, 2048), SystemSource())
    )


def test_there_are_forty_strategies_and_an_honest_one_is_not_refused():
    assert len(CHEATS) >= 40
    statement = Statement(b"it", 40, 2048)
    assert not refused(statement, honest(statement, SystemSource()))


def test_a_residue_that_is_moved_anywhere_is_seen():
    statement = Statement(b"it", 40, 2048)
    assert all(refused(statement, each) for each in random_cheats(statement, SystemSource(), 100))


def test_a_moved_share_is_seen_by_party_0_too(rng):
    """Where party 1 and the device are one: the commitments bind what it was sent."""
    statement = Statement(b"it", 40, 2048)
    vector = np.zeros(40, np.int64)
    first, second = prove(statement, vector, *secrets())
    found = both(statement, (first, second))
    other = both(statement, prove(statement, at_bound(40, 2048, rng), *secrets()))
    assert not accepted(found[0].message, other[1].message).any()


def test_a_message_holds_a_whole_hash_and_fits_the_log_of_rounds():
    """Of half a hash a device could find two proofs that agree, in 2^64 trials."""
    assert STATE_BYTES == HASH_BYTES
    assert MESSAGE_BYTES == CHECK_BYTES
    assert MOST_CHECKS * CHECK_BYTES < MAX_ROUND_BYTES * 3 // 4


def test_several_pairs_of_messages_are_judged_one_by_one():
    statement = Statement(b"it", 40, 2048)
    pairs = [both(statement, prove(statement, np.zeros(40, int), *secrets())) for _ in range(3)]
    said = [b"".join(pair[party].message for pair in pairs) for party in (0, 1)]
    assert accepted(*said).tolist() == [True] * 3
    bent = bytearray(said[1])
    bent[MESSAGE_BYTES] ^= 1
    assert accepted(said[0], bytes(bent)).tolist() == [True, False, True]
    other = said[1][:-1] + bytes([said[1][-1] ^ 1])  # what was fixed before the last challenge
    assert accepted(said[0], other).tolist() == [True, True, False]
    above = P.to_bytes(6, "little") + said[0][6:]
    assert accepted(above, said[1]).tolist() == [False, True, True]


def test_what_is_beyond_the_bound_is_not_proved():
    for vector in (np.array([3, 4, 1]), np.array([3, 4])):
        with pytest.raises(ValueError, match="within the bound"):
            prove(Statement(b"it", 3, 5), vector, *secrets())
    with pytest.raises(ValueError, match="1 to 2048"):
        Statement(b"it", 3, 2049)


def guessed(statement, payload, vector):
    """Return the factors (2, 2) that party 0 computes for a guess of the vector, without masks."""
    _, seeded, committed = norm_proof._taken(statement, 0, payload)
    values, layout = field.residues(vector), statement.layout
    transcript = norm_proof._begun(statement, seeded, committed[0])
    rows_of = transcript.bits(rows.row_bytes(statement.size))
    squares = int((vector**2).sum())
    sums = field.centered(rows.products(rows_of, values))
    bits = norm_proof.bits_of(sums, statement.bound**2 - squares)
    transcript.absorb(committed[1])
    weights = norm_proof._weights(transcript)[1]
    points = []
    for each in committed[2:]:
        transcript.absorb(each)
        points.append(transcript.challenges(1))
    point = rows.Point(np.concatenate(points, axis=1))
    at_bits, both_of = point.at(layout.bits), point.sum(layout.placed(values))
    u = field.total(field.times(at_bits, field.mul(weights, bits)))
    return field.add(both_of, np.stack((u, field.total(field.mul(at_bits, bits)))))


class Unmasked(norm_proof.Prover):
    """A planted fault."""

    def payloads(self, values):
        self._masks = np.zeros(MASKS, np.uint64)
        return super().payloads(values)


def test_a_party_cannot_confirm_a_guess_of_the_vector(rng):
    """The opened factors are those of the right guess and of uniform masks; their product and the
    zero follow. Chi-square of the bytes of the difference with 255 degrees of freedom, above 420
    with probability 1e-9. Power: without masks the right guess is confirmed every time."""
    statement = Statement(b"it", 30, 2048)
    vector, left = at_bound(30, 2048, rng), []
    for make in (norm_proof.Prover, Unmasked):
        for _ in range(120):
            payloads = make(statement, *secrets()).payloads(field.residues(vector))
            said = [field.decode(each.message[:-STATE_BYTES]) for each in both(statement, payloads)]
            u, v, product, line = field.add(*said).reshape(4, 2)
            assert field.times(u, v).tolist() == product.tolist()
            assert not line.any()
            left.append(field.sub(np.stack((u, v)), guessed(statement, payloads[0], vector)))
    assert not np.any(left[120:])
    data = np.frombuffer(field.encode(np.array(left[:120])), np.uint8)
    counts = np.bincount(data, minlength=256)
    assert ((counts - len(data) / 256) ** 2 / (len(data) / 256)).sum() < 420


def test_masks_depend_on_what_either_party_does_not_know():
    """Party 0 knows the seed, party 1 the blind: with another one of either they are others."""
    statement, (seed, blind) = Statement(b"it", 3, 5), secrets()
    pairs = (seed, blind), (seed, secrets()[1]), (secrets()[0], blind)
    masks = [norm_proof.Prover(statement, *pair)._masks for pair in pairs]
    assert all(len(each) == MASKS for each in masks)
    assert len(np.unique(np.concatenate(masks))) == 3 * MASKS


def test_in_a_small_field_a_false_sum_passes_as_often_as_is_claimed():
    """All challenges of two rounds over the 49 elements of p = 7, and the best false prover."""
    passed, trials = sum_check.best_false_prover(7, rounds=2)
    assert 0 < passed / trials <= 2 * 2 / 7**2
