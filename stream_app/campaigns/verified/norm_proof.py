"""Proofs that a shared vector is short: sum x^2 is at most bound^2, over the integers.

    device        splits x into shares modulo p, and proves it to both parties at once
    party         checks its part alone, and says 80 bytes, which show nothing of x
    both          accept where the two messages agree

What is proved, for random weights w, tau, chi of F_p^2 (Layout names x, y, digits, spare):

    digits of y     sum_j chi_j (y_j + REACH - sum_l 2^l digit_jl) = 0           linear
    one sum         sum x^2 + sum_k w_k bit_k^2 = bound^2 - sum_l 2^l spare_l + sum_k w_k bit_k

so every bit is one, and the rest is what the layout says. The sum is of products u_j v_j, and is
folded to one product by the sum-check protocol on shares (Boneh et al. 2019, section 5; Lund et al.
1992): in each round the device shares c_0 and c_2 of

    P(X) = sum_j U_j(X) V_j(X) = c_0 + c_1 X + c_2 X^2,    P(0) + P(1) = the sum of before,

and the next sum is P(r). All of it is linear in shares, but for the last product. Two pairs of
places hold masks in one factor and 0 in the other: they add nothing to the sum, and make the last
factors uniform. So a party sees uniform shares, two uniform factors, their product, and a 0; it
could draw that by itself. That holds for a party that lies, too: no challenge depends on it.

A false vector passes with probability 2^-91 for each trial of challenges, and 2^-128 for those of
R, which take as much work as a proof. It needs both parties to be honest.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stream_app.campaigns.verified import field, rows
from stream_app.campaigns.verified.field import ELEMENT_BYTES, P, Residues
from stream_app.campaigns.verified.layout import (
    AUX,
    BITS,
    DIGITS,
    MASKS,
    MAX_BOUND,
    REACH,
    ROWS,
    SPARE,
    Layout,
    layout_of,
)
from stream_app.campaigns.verified.transcript import (
    HASH_BYTES,
    Transcript,
    commitment,
    secret_of_both,
)
from stream_app.privacy.gaussian.keyed_source import KeyedSource

SEED_BYTES = 32
STATE_BYTES = 32
MESSAGE_BYTES = 4 * 2 * ELEMENT_BYTES + STATE_BYTES
_DIGITS = ROWS * DIGITS
_ROW_POINTS, _BIT_POINTS = ROWS.bit_length() - 1, BITS.bit_length()
_DIGIT_WEIGHTS = np.array([1 << n for n in range(DIGITS)], np.uint64)
_SPARE_WEIGHTS = np.array([1 << n for n in range(SPARE)], np.uint64)


@dataclass(frozen=True)
class Statement:
    """A vector of `size` integers has an L2 norm of at most `bound`; `context` is what the proof is
    for, and nothing else."""

    context: bytes
    size: int
    bound: int

    def __post_init__(self) -> None:
        if not 1 <= self.bound <= MAX_BOUND:
            raise ValueError(f"bound {self.bound}: a proof is for 1 to {MAX_BOUND}")

    @property
    def layout(self) -> Layout:
        """The places of a vector of this size."""
        return layout_of(self.size)

    @property
    def elements(self) -> int:
        """The residues of a share: of the vector, of what is beside it, of the rounds."""
        return self.size + AUX + 4 * int(self.layout.rounds)

    @property
    def payload_bytes(self) -> tuple[int, int]:
        """What each party is sent: a seed and commitments; a commitment, a blind and residues."""
        seeded = SEED_BYTES + HASH_BYTES * (2 + self.layout.rounds)
        return seeded, HASH_BYTES + SEED_BYTES + ELEMENT_BYTES * self.elements


class Checked(NamedTuple):
    """What a party finds by itself: its share of the vector (size,), and what it says."""

    share: Residues
    message: bytes


# --- the device -----------------------------------------------------------------------------------


def prove(
    statement: Statement, vector: NDArray[np.integer], seed: bytes, blind: bytes
) -> tuple[bytes, bytes]:
    """Return the payloads of both parties for a vector (size,); seed and blind are secret, uniform,
    32 bytes each, and used once.

    ValueError for a vector that is not of the statement.
    """
    squares = int(np.square(vector.astype(np.int64)).sum())
    if vector.shape != (statement.size,) or squares > statement.bound**2:
        raise ValueError(f"a vector of {vector.shape}, not of {statement.size} within the bound")
    return Prover(statement, seed, blind).payloads(field.residues(vector))


class Prover:
    """A proof in the making; what a false device does otherwise is in methods of their own."""

    def __init__(self, statement: Statement, seed: bytes, blind: bytes) -> None:
        self.statement, self.seed, self.blind = statement, seed, blind
        self._committed: list[bytes] = []
        self._shares: list[bytes] = []
        self._transcript: Transcript | None = None
        self._seeded = commitment(seed, 0, b"")
        self._masks = expanded(secret_of_both(seed, blind), MASKS)

    def payloads(self, values: Residues) -> tuple[bytes, bytes]:
        """Return the payloads of both parties for a vector (size,)."""
        size, layout = self.statement.size, self.statement.layout
        seeded = expanded(self.seed, self.statement.elements)
        self._commit(field.sub(values, seeded[:size]))
        rows_of = self.transcript.bits(rows.row_bytes(size))
        bits = self.bits(values, field.centered(rows.products(rows_of, values)))
        beside = np.concatenate((bits, self._masks))
        self._commit(field.sub(beside, seeded[size : size + AUX]))
        weights = _weights(self.transcript)[1]
        folding = _Folding(layout, values, bits, self._masks, weights)
        for n in range(layout.rounds):
            start = size + AUX + 4 * n
            ends = self.ends(n, folding.ends())
            self._commit(field.sub(ends.ravel(), seeded[start : start + 4]))
            folding.fold(self.transcript.challenges(1))
        first = self.seed + b"".join(self._committed)
        return first, self._seeded + self.blind + b"".join(self._shares)

    def bits(self, values: Residues, sums: NDArray[np.int64]) -> Residues:
        """Return the bits (BITS,) of a vector and of its products with the rows (ROWS,)."""
        if np.abs(sums).max() >= REACH:
            raise ValueError("products with the rows that are too long: draw another seed")
        squares = int(np.square(field.centered(values)).sum())
        return bits_of(sums, self.statement.bound**2 - squares)

    def ends(self, round_: int, made: Residues) -> Residues:  # noqa: ARG002
        """Return (c_0, c_2) of a round, (2, 2)."""
        return made

    @property
    def transcript(self) -> Transcript:
        """What was fixed so far; after the first share."""
        assert self._transcript is not None
        return self._transcript

    def _commit(self, share: Residues) -> None:
        """Fix the next share of party 1."""
        data = field.encode(share)
        made = commitment(self.blind, len(self._shares), data)
        if self._transcript is None:
            self._transcript = _begun(self.statement, self._seeded, made)
        else:
            self._transcript.absorb(made)
        self._shares.append(data)
        self._committed.append(made)


class _Folding:
    """The sum of u_j v_j in the making; u is v but at few places.

    v (2, n), and at the places `own` u - v (2, m); the first round works on integers of F_p. After
    it `pairs` (2, u and v, lower half and its rise, n): what is folded, and what it is folded with.
    """

    def __init__(
        self, layout: Layout, vector: Residues, bits: Residues, masks: Residues, weights: Residues
    ) -> None:
        half = layout.half
        v = layout.placed(vector)
        v[layout.bits] = bits
        v[layout.masks[2:]] = masks[2:]
        more = np.zeros((2, layout.length), np.uint64)
        one = np.array([[1], [0]], np.uint64)
        more[:, layout.bits] = field.mul(field.sub(weights, one), bits)
        more[0, layout.masks[:2]] = masks[:2]
        more[0, layout.masks[2:]] = field.sub(np.zeros(2, np.uint64), masks[2:])
        self._own = layout.own
        self._low, self._rise = v[:half], field.sub(v[half:], v[:half])
        self._more = more[:, self._own]
        self._more_rise = field.sub(more[:, self._own + half], self._more)
        self._pairs: Residues | None = None

    def ends(self) -> Residues:
        """Return (c_0, c_2), elements of F_p^2 each (2, 2)."""
        if self._pairs is not None:
            return field.inner(self._pairs[:, 0], self._pairs[:, 1]).T
        parts = (self._low, self._more), (self._rise, self._more_rise)
        found = []
        for part, more in parts:
            squares = np.array([field.total(field.mul(part, part)), 0], np.uint64)
            found.append(field.add(squares, field.total(field.mul(more, part[self._own]))))
        return np.stack(found)

    def fold(self, r: Residues) -> None:
        """Put a challenge (2, 1) in the place of X."""
        if self._pairs is not None:
            low, rise = self._pairs[:, :, 0], self._pairs[:, :, 1]
            folded = field.add(low, field.times(r[:, :, None], rise))
        else:
            v = field.mul(r, self._rise)
            v[0] = field.add(v[0], self._low)
            folded = np.stack((v, v), axis=1)
            more = field.add(self._more, field.times(r, self._more_rise))
            folded[:, 0, self._own] = field.add(v[:, self._own], more)
        if folded.shape[2] > 1:
            half = folded.shape[2] // 2
            rise = field.sub(folded[:, :, half:], folded[:, :, :half])
            self._pairs = np.stack((folded[:, :, :half], rise), axis=2)


def bits_of(sums: NDArray[np.int64], spare: int) -> Residues:
    """Return the digits of y (ROWS,) and of the spare square, (BITS,) of 0 and 1."""
    digits = (sums[:, None] + REACH) >> np.arange(DIGITS) & 1
    return np.concatenate((digits.ravel(), spare >> np.arange(SPARE) & 1)).astype(np.uint64)


# --- a party --------------------------------------------------------------------------------------


def share_of(statement: Statement, party: int, payload: bytes) -> Residues | None:
    """Return a party's share of the vector (size,), of a payload that it has checked."""
    taken = _taken(statement, party, payload)
    return None if taken is None else taken[0][: statement.size]


def check(statement: Statement, party: int, payload: bytes) -> Checked | None:
    """Return what party 0 or 1 finds in its payload; None where that has not the form of one."""
    taken = _taken(statement, party, payload)
    if taken is None:
        return None
    share, seeded, committed = taken
    size, layout, public = statement.size, statement.layout, np.uint64(party == 0)
    vector, bits, masks = np.split(share[: size + AUX], (size, size + BITS))
    transcript = _begun(statement, seeded, committed[0])
    rows_of = transcript.bits(rows.row_bytes(size))
    transcript.absorb(committed[1])
    row_weights, weights = _weights(transcript)
    digits = field.total(field.mul(bits[:_DIGITS].reshape(ROWS, DIGITS), _DIGIT_WEIGHTS))
    y = field.add(rows.products(rows_of, vector), public * np.uint64(REACH))
    line = field.total(field.mul(row_weights, field.sub(y, digits)))
    weighted = field.mul(weights, bits)
    claim = field.total(weighted)
    spare = field.total(field.mul(bits[_DIGITS:], _SPARE_WEIGHTS))
    square = field.sub(public * np.uint64(statement.bound**2), spare)
    claim[0] = field.add(claim[:1], square[None])[0]
    found = []
    for each in committed[2:]:
        transcript.absorb(each)
        found.append(transcript.challenges(1))
    points = np.concatenate(found, axis=1)
    claim = _last_claim(claim, share[size + AUX :].reshape(-1, 2, 2), points)
    point = rows.Point(points)
    at_bits, at_masks = point.at(layout.bits), point.at(layout.masks)
    both = point.sum(layout.placed(vector))
    last_v = field.add(both, field.total(field.mul(at_bits, bits)))
    last_v = field.add(last_v, field.total(field.mul(at_masks[:, 2:], masks[2:])))
    last_u = field.add(both, field.total(field.times(at_bits, weighted)))
    last_u = field.add(last_u, field.total(field.mul(at_masks[:, :2], masks[:2])))
    encoded = field.encode(np.stack((last_u, last_v, claim, line)))
    return Checked(vector, encoded + transcript.state[:STATE_BYTES])


def accepted(first: bytes, second: bytes) -> NDArray[np.bool_]:
    """Return of n messages of either party, one after another, which pairs prove their statement,
    (n,)."""
    elements, states = [], []
    for messages in (first, second):
        rows_of = np.frombuffer(messages, np.uint8).reshape(-1, MESSAGE_BYTES)
        found = field.decoded(rows_of[:, :-STATE_BYTES].tobytes()).reshape(-1, 4, 2)
        elements.append(found)
        states.append(rows_of[:, -STATE_BYTES:])
    are_residues = [(each < field.P).all(axis=(1, 2)) for each in elements]
    u, v, claim, line = field.add(*elements).transpose(1, 2, 0)
    holds = (field.times(u, v) == claim).all(axis=0) & (line == 0).all(axis=0)
    return np.asarray(
        holds & are_residues[0] & are_residues[1] & (states[0] == states[1]).all(axis=1)
    )


def _last_claim(claim: Residues, ends: Residues, points: Residues) -> Residues:
    """Return what is left of the share of a sum (2,) after all rounds: P(r) of (c_0, c_2), (rounds,
    2, 2), and r, (2, rounds), of each. Python's integers, which are faster for single elements."""
    a, b = claim.tolist()
    rounds = zip(ends.tolist(), points.T.tolist(), strict=True)
    for ((low, low_i), (high, high_i)), (r, i) in rounds:
        c, d = a - 2 * low - high, b - 2 * low_i - high_i
        c, d = c + r * high - i * high_i, d + r * high_i + i * high
        a, b = (low + r * c - i * d) % P, (low_i + r * d + i * c) % P
    return np.array([a, b], np.uint64)


_Taken = tuple[Residues, bytes, list[bytes]]  # all residues, commitment of the seed, the others


def _taken(statement: Statement, party: int, payload: bytes) -> _Taken | None:
    if len(payload) != statement.payload_bytes[party]:
        return None
    return _of_seed(statement, payload) if party == 0 else _of_residues(statement, payload)


def _of_seed(statement: Statement, payload: bytes) -> _Taken:
    seed = payload[:SEED_BYTES]
    starts = range(SEED_BYTES, len(payload), HASH_BYTES)
    committed = [payload[start : start + HASH_BYTES] for start in starts]
    return expanded(seed, statement.elements), commitment(seed, 0, b""), committed


def _of_residues(statement: Statement, payload: bytes) -> _Taken | None:
    seeded, blind = payload[:HASH_BYTES], payload[HASH_BYTES : HASH_BYTES + SEED_BYTES]
    data = payload[HASH_BYTES + SEED_BYTES :]
    share = field.decode(data)
    if share is None:
        return None
    ends = np.cumsum([0, statement.size, AUX, *([4] * statement.layout.rounds)]) * ELEMENT_BYTES
    committed = [
        commitment(blind, n, data[start:end]) for n, (start, end) in enumerate(pairwise(ends))
    ]
    return share, seeded, committed


def _begun(statement: Statement, seeded: bytes, vector: bytes) -> Transcript:
    terms = statement.size.to_bytes(8, "little") + statement.bound.to_bytes(8, "little")
    return Transcript(statement.context + terms, seeded, vector)


def _weights(transcript: Transcript) -> tuple[Residues, Residues]:
    """Return the weights of rows (2, ROWS) and of bits (2, BITS)."""
    points = transcript.challenges(1 + _ROW_POINTS + _BIT_POINTS)
    of_bits = rows.tensor(points[:, 1 + _ROW_POINTS :])[:, :BITS]
    return rows.tensor(points[:, 1 : 1 + _ROW_POINTS]), field.times(points[:, :1], of_bits)


def expanded(seed: bytes, count: int) -> Residues:
    """Return uniform residues (count,) of a seed."""
    found = field.uniform(KeyedSource(seed).words(count + 64))
    return found[:count]
