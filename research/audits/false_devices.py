"""What a false device may send in the place of a short vector with its proof.

    vectors   longer than the bound, also such that integers modulo p wrap around; their proofs are
              made by the device's own code from bits that hold nowhere
    bits      values that are none, so that sums over them come out as wanted
    rounds    ends of a round that are not those of the sum; the rest of the proof is made for them
    payloads  of another device, stage, plan, size or bound, of another time, swapped, mixed of two
              proofs, one residue moved by 1 or by p, one commitment changed

Every cheat gives the payloads of both parties; `refused` says whether the two count it as a proof.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns.verified import field
from stream_app.campaigns.verified.field import ELEMENT_BYTES, P, Residues
from stream_app.campaigns.verified.layout import AUX, BITS, DIGITS, REACH, ROWS, SPARE
from stream_app.campaigns.verified.norm_proof import (
    SEED_BYTES,
    Prover,
    Statement,
    accepted,
    bits_of,
    check,
    prove,
)
from stream_app.campaigns.verified.transcript import HASH_BYTES
from stream_app.privacy.randomness import RandomSource

Payloads = tuple[bytes, bytes]
Cheat = Callable[[Statement, RandomSource], Payloads]
_BITS_OF_ROWS = ROWS * DIGITS
_BLIND = HASH_BYTES  # where the blind begins in the payload of party 1
_RESIDUES = HASH_BYTES + SEED_BYTES


def refused(statement: Statement, payloads: Payloads) -> bool:
    """Return whether the parties, both honest, do not count these payloads."""
    found = [check(statement, party, payload) for party, payload in enumerate(payloads)]
    if found[0] is None or found[1] is None:
        return True
    return not accepted(found[0].message, found[1].message)[0]


class _Bent(Prover):
    """A prover for any vector: bits and ends are what `bend` and `end` make of honest ones."""

    bend: Callable[[Residues], Residues] = staticmethod(lambda bits: bits)
    end: Callable[[int, Residues], Residues] = staticmethod(lambda _, made: made)

    def bits(self, values: Residues, sums: NDArray[np.int64]) -> Residues:
        """Return bits of what is left of sums and spare square in their range."""
        squares = sum(value * value for value in field.centered(values).tolist())
        spare = (self.statement.bound**2 - squares) % P
        kept = (sums + REACH) % (2 * REACH) - REACH
        return self.bend(bits_of(kept, spare % 2**SPARE))

    def ends(self, round_: int, made: Residues) -> Residues:
        """Return the ends of a round."""
        return self.end(round_, made)


def _secrets(source: RandomSource) -> tuple[bytes, bytes]:
    words = source.words(8).astype("<u8").tobytes()
    return words[:SEED_BYTES], words[SEED_BYTES:]


def _prover(statement: Statement, source: RandomSource) -> _Bent:
    return _Bent(statement, *_secrets(source))


def honest(statement: Statement, source: RandomSource) -> Payloads:
    """Return the payloads of a device that keeps to the protocol, with one entry at the bound."""
    return prove(statement, _within(statement), *_secrets(source))


def _within(statement: Statement) -> NDArray[np.int64]:
    vector = np.zeros(statement.size, np.int64)
    vector[0] = statement.bound
    return vector


# --- vectors ------------------------------------------------------------------------------------


def _of_vector(
    make: Callable[[Statement, RandomSource], Residues], statement: Statement, source: RandomSource
) -> Payloads:
    return _prover(statement, source).payloads(make(statement, source))


def _entries(*values: int) -> Callable[[Statement, RandomSource], Residues]:
    def made(statement: Statement, _: RandomSource) -> Residues:
        found = np.zeros(statement.size, np.uint64)
        count = min(len(values), statement.size)
        found[:count] = [value % P for value in values[:count]]
        return found

    return made


def _one_more(statement: Statement, _: RandomSource) -> Residues:
    found = field.residues(_within(statement))
    found[1] = 1
    return found


def _many_small(statement: Statement, _: RandomSource) -> Residues:
    each = int(statement.bound / statement.size**0.5) + 2
    return np.full(statement.size, each, np.uint64)


def _all_at_bound(statement: Statement, _: RandomSource) -> Residues:
    return np.full(statement.size, statement.bound, np.uint64)


def _uniform(statement: Statement, source: RandomSource) -> Residues:
    return source.words(statement.size) % np.uint64(P)


def _wrapped_norm(statement: Statement, source: RandomSource) -> Residues:
    """Return large entries whose squares add up to 1 modulo p: x^2 + y^2 = 1."""
    while True:
        x = int(source.words(1)[0]) % P
        rest = (1 - x * x) % P
        y = pow(rest, (P + 1) // 4, P)  # a root, if there is one, for p = 3 modulo 4
        if y * y % P == rest and min(x, P - x) > REACH * 4:
            return _entries(x, y)(statement, source)


# --- bits ---------------------------------------------------------------------------------------


def _of_bits(
    bend: Callable[[Residues], Residues],
    make: Callable[[Statement, RandomSource], Residues],
    statement: Statement,
    source: RandomSource,
) -> Payloads:
    prover = _prover(statement, source)
    prover.bend = bend
    return prover.payloads(make(statement, source))


def _set(place: int, value: int, bits: Residues) -> Residues:
    bits[place] = value % P
    return bits


class _InOneBit(_Bent):
    """A prover that puts each y + REACH, and the spare square, into its first bit."""

    def bits(self, values: Residues, sums: NDArray[np.int64]) -> Residues:
        """Return what are no bits, and make every sum right."""
        found = np.zeros(BITS, np.uint64)
        found[:_BITS_OF_ROWS:DIGITS] = field.residues(sums + REACH)
        squares = sum(value * value for value in field.centered(values).tolist())
        found[_BITS_OF_ROWS] = (self.statement.bound**2 - squares) % P
        return found


def _whole_sum_in_one(statement: Statement, source: RandomSource) -> Payloads:
    prover = _InOneBit(statement, *_secrets(source))
    return prover.payloads(_entries(2**30)(statement, source))


# --- rounds -------------------------------------------------------------------------------------


def _of_round(
    round_: int, change: Callable[[Residues], Residues], statement: Statement, source: RandomSource
) -> Payloads:
    prover = _prover(statement, source)

    def end(number: int, made: Residues) -> Residues:
        return change(made) if number == round_ % statement.layout.rounds else made

    prover.end = end
    return prover.payloads(_one_more(statement, source))


def _plus_one(made: Residues) -> Residues:
    made[0, 0] = field.add(made[:1, 0], np.uint64(1))[0]
    return made


def _minus_high(made: Residues) -> Residues:
    made[1, 0] = field.sub(made[1:, 0], np.uint64(1))[0]
    return made


# --- payloads -----------------------------------------------------------------------------------


def _of_other(change: Callable[[Statement], Statement]) -> Cheat:
    def made(statement: Statement, source: RandomSource) -> Payloads:
        return honest(change(statement), source)

    return made


def _mixed(statement: Statement, source: RandomSource) -> Payloads:
    return honest(statement, source)[0], honest(statement, source)[1]


def _swapped(statement: Statement, source: RandomSource) -> Payloads:
    first, second = honest(statement, source)
    return second, first


def _moved(party: int, place: int, by: int, statement: Statement, source: RandomSource) -> Payloads:
    """Return a proof with one residue of party 1 moved, or one byte of the payload of party 0."""
    found = [bytearray(payload) for payload in honest(statement, source)]
    if party == 0:
        found[0][place % len(found[0])] ^= 1
    else:
        start = _RESIDUES + ELEMENT_BYTES * (place % statement.elements)
        value = int.from_bytes(found[1][start : start + ELEMENT_BYTES], "little") + by
        found[1][start : start + ELEMENT_BYTES] = (value % 2**48).to_bytes(ELEMENT_BYTES, "little")
    return bytes(found[0]), bytes(found[1])


def _byte(place: int, statement: Statement, source: RandomSource) -> Payloads:
    first, second = honest(statement, source)
    flipped = bytearray(second)
    flipped[place] ^= 1
    return first, bytes(flipped)


def _length(by: int, party: int, statement: Statement, source: RandomSource) -> Payloads:
    found = list(honest(statement, source))
    found[party] = found[party] + bytes(by) if by > 0 else found[party][:by]
    return found[0], found[1]


def cheats() -> dict[str, Cheat]:
    """Return every strategy by name."""
    vectors = {
        "an entry of 2^30": _entries(2**30),
        "an entry of p / 2": _entries(P // 2),
        "two entries of p / 2": _entries(P // 2, P // 2),
        "a thousand entries of p / 3": _entries(*[P // 3] * 1000),
        "squares that wrap around to 1": _wrapped_norm,
        "an entry of twice the reach": _entries(2 * REACH),
        "an entry of minus the reach": _entries(-REACH),
        "twice the bound": _entries(4096),
        "one more than the bound": _one_more,
        "many small entries": _many_small,
        "every entry at the bound": _all_at_bound,
        "a uniform vector": _uniform,
    }
    bits: dict[str, Callable[[Residues], Residues]] = {
        "a bit of 2": partial(_set, 0, 2),
        "a bit of -1": partial(_set, DIGITS + 3, -1),
        "a bit of 1 / 2": partial(_set, _BITS_OF_ROWS - 1, (P + 1) // 2),
        "a spare bit of 2": partial(_set, _BITS_OF_ROWS, 2),
        "a last spare bit of -1": partial(_set, BITS - 1, -1),
        "no bit at all": np.zeros_like,
    }
    rounds = {
        f"{name} of round {number}": partial(_of_round, number, change)
        for name, change in (("a first end", _plus_one), ("a second end", _minus_high))
        for number in (0, 1, -1)
    }
    others: dict[str, Cheat] = {
        "the proof of another device, stage or plan": _of_other(
            lambda own: replace(own, context=own.context + b"other")
        ),
        "a proof of a smaller bound": _of_other(lambda own: replace(own, bound=own.bound - 1)),
        "a proof of another size": _of_other(lambda own: replace(own, size=own.size + 1)),
        "parts of two proofs": _mixed,
        "the parts of the other party": _swapped,
        "another seed": partial(_moved, 0, 0, 1),
        "a first commitment changed": partial(_moved, 0, SEED_BYTES, 1),
        "a second commitment changed": partial(_moved, 0, SEED_BYTES + HASH_BYTES, 1),
        "a commitment of a round changed": partial(_moved, 0, SEED_BYTES + 2 * HASH_BYTES, 1),
        "another commitment of the seed": partial(_byte, 0),
        "another blind": partial(_byte, _BLIND),
        "an entry of a share moved": partial(_moved, 1, 1, 1),
        "a share that is no residue": partial(_moved, 1, 1, P),
        "a longer part": partial(_length, 6, 1),
        "a shorter part": partial(_length, -HASH_BYTES, 0),
    }
    beside = {
        "a bit of a share moved": 0,
        "a spare bit of a share moved": BITS - 1,
        "a mask of a share moved": BITS,
        "an end of a share moved": AUX,
    }
    found: dict[str, Cheat] = {name: partial(_of_vector, make) for name, make in vectors.items()}
    found |= {name: partial(_of_bits, bend, _one_more) for name, bend in bits.items()}
    found |= {"sums in one bit": _whole_sum_in_one, **rounds, **others}
    return found | {name: partial(_beside, place) for name, place in beside.items()}


def _beside(place: int, statement: Statement, source: RandomSource) -> Payloads:
    return _moved(1, statement.size + place, 1, statement, source)


def random_cheats(statement: Statement, source: RandomSource, count: int) -> Iterator[Payloads]:
    """Yield proofs in which one residue at a random place is moved by a random amount."""
    first, second = honest(statement, source)
    for place, by in source.words(2 * count).reshape(-1, 2).tolist():
        found = bytearray(second)
        start = _RESIDUES + ELEMENT_BYTES * (place % statement.elements)
        value = int.from_bytes(found[start : start + ELEMENT_BYTES], "little")
        moved = (value + 1 + by % (P - 1)) % P
        found[start : start + ELEMENT_BYTES] = moved.to_bytes(ELEMENT_BYTES, "little")
        yield first, bytes(found)
