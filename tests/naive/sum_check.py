"""The sum-check protocol for a sum of products over F_p^2, p small, with one false prover.

Elements are pairs of integers. The sum of the claim is 1 too large; in each round the prover adds
to the true polynomial an error that has the error of the claim at 0 and 1 together, and two roots
at elements that it hopes for: no polynomial of degree 2 has more.
"""

from __future__ import annotations

from itertools import product

Element = tuple[int, int]


def best_false_prover(p: int, rounds: int) -> tuple[int, int]:
    """Return how many of all sequences of challenges let the prover pass, and how many there are.

    The error before a round is e; it sends E(X) = c (X - s)(X - t) with E(0) + E(1) = e, and goes
    on with E(r), which is 0 for r = s and r = t. The last factors are opened, so an error that is
    left is seen.
    """

    def mul(a: Element, b: Element) -> Element:
        return (a[0] * b[0] - a[1] * b[1]) % p, (a[0] * b[1] + a[1] * b[0]) % p

    def sub(a: Element, b: Element) -> Element:
        return (a[0] - b[0]) % p, (a[1] - b[1]) % p

    def inverse(a: Element) -> Element:
        scale = pow(a[0] ** 2 + a[1] ** 2, -1, p)
        return a[0] * scale % p, -a[1] * scale % p

    elements = list(product(range(p), repeat=2))
    s, t, one = (2, 3), (5, 1), (1, 0)
    at_ends = mul(s, t), mul(sub(one, s), sub(one, t))
    both = ((at_ends[0][0] + at_ends[1][0]) % p, (at_ends[0][1] + at_ends[1][1]) % p)
    passed = trials = 0
    for challenges in product(elements, repeat=rounds):
        error: Element = one
        for r in challenges:
            scale = mul(error, inverse(both))
            error = mul(scale, mul(sub(r, s), sub(r, t)))
        passed += error == (0, 0)
        trials += 1
    return passed, trials
