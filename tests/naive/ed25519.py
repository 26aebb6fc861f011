"""Ed25519 in whole numbers (RFC 8032), for honest signatures and for crafted ones.

    point   (x, y) on -x^2 + y^2 = 1 + d x^2 y^2 mod p;   L: order of the base point;   8 L points

A crafted signature adds points of small order to the key and to the commitment, writes a coordinate
as y + p, or a scalar as s + L: everything in which the rules of libraries differ.
"""

from __future__ import annotations

from hashlib import sha512

P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
Point = tuple[int, int]
ZERO: Point = (0, 1)


def add(a: Point, b: Point) -> Point:
    (x1, y1), (x2, y2) = a, b
    t = D * x1 * x2 * y1 * y2 % P
    x = (x1 * y2 + x2 * y1) * pow(1 + t, P - 2, P) % P
    return x, (y1 * y2 + x1 * x2) * pow(1 - t, P - 2, P) % P


def times(n: int, a: Point) -> Point:
    total = ZERO
    while n:
        if n & 1:
            total = add(total, a)
        a, n = add(a, a), n >> 1
    return total


def root(y: int) -> int | None:
    """Return the even x of a point, None where there is none."""
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if (x * x - square) % P:
        return None
    return P - x if x & 1 else x


_Y = 4 * pow(5, P - 2, P) % P
BASE: Point = (root(_Y) or 0, _Y)


def torsion() -> list[Point]:
    """Return the eight points of small order, in the order of multiples of a generator."""
    y = 2
    while True:
        x = root(y)
        generator = times(L, (x, y)) if x else ZERO
        if times(4, generator) != ZERO:
            return [times(n, generator) for n in range(8)]
        y += 1


def encoded(a: Point, *, over: bool = False) -> bytes:
    """Return 32 bytes; `over` writes y + p, which fits only for y < 19."""
    x, y = a
    return ((y + P * over) | (x & 1) << 255).to_bytes(32, "little")


def number(*parts: bytes) -> int:
    return int.from_bytes(sha512(b"".join(parts)).digest(), "little") % L


def crafted(
    seed: bytes,
    message: bytes,
    *,
    key_torsion: Point = ZERO,
    commitment_torsion: Point = ZERO,
    loops: int = 0,
    small_key: bool = False,
    small_commitment: bool = False,
) -> tuple[bytes, bytes]:
    """Return (public key, signature): honest without options, else off by points of small order,
    of nothing but these where `small_...`, or with `loops` x L added to the scalar."""
    digest = sha512(seed).digest()
    a = 0 if small_key else int.from_bytes(digest[:32], "little") & (2**254 - 8) | 2**254
    key = encoded(add(times(a, BASE), key_torsion))
    r = 0 if small_commitment else number(digest[32:], message)
    commitment = encoded(add(times(r, BASE), commitment_torsion))
    s = (r + number(commitment, key, message) * a) % L + loops * L
    return key, commitment + s.to_bytes(32, "little")
