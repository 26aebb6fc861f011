"""The noise of profiles, recomputed from the released bits and integers.

    blip   every bit is 1 with probability p to 1 - p, whatever the profile holds; a bit that no
           item of the public scope sets is 1 with probability exactly p
    jlt    the mean square of a coordinate is V at least; what is left of a profile after projecting
           it onto the complement of the scope's codewords has mean square exactly V

With a scope that leaves bits or dimensions free the noise is measured in both directions; without
one only too little noise can show.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from consumers.audit import tail_check as tails
from consumers.audit.checks.hull import hull_divergence
from consumers.audit.configuration import PublicConfiguration
from consumers.audit.findings import Finding, statistical, untestable
from consumers.audit.observed import Observed
from stream_app.privacy.profiles.blip import Blip
from stream_app.privacy.profiles.codebook import positions, signs
from stream_app.privacy.profiles.jlt import Jlt

_MOST_PROJECTED = 4096  # dimensions of a projection that is computed


def profile_channels(observed: Observed, configuration: PublicConfiguration) -> Iterator[Finding]:
    """Yield one finding for each profile mechanism on the topic."""
    for name, mechanism in observed.mechanisms.items():
        claim = f"{name}: profiles have the claimed noise"
        own = [each.released for each in observed.profiles if each.mechanism == name]
        if mechanism.epsilon is None:
            yield untestable(claim, "this mechanism claims nothing")
        elif not own:
            yield untestable(claim, "no profile of this mechanism")
        elif isinstance(mechanism, Blip):
            yield _bits(claim, mechanism, np.stack(own), configuration.scope)
        elif isinstance(mechanism, Jlt):
            yield _integers(claim, mechanism, np.stack(own), configuration.scope)


def _bits(
    claim: str, mechanism: Blip, released: NDArray[np.uint8], scope: NDArray[np.uint64] | None
) -> Finding:
    bits, p = mechanism.bits(released), float(mechanism.flip)
    if (np.packbits(bits, axis=1, bitorder="little") != released).any():
        return statistical(claim, -np.inf, "a bit beyond the length is set")
    channel = np.array([[1 - p, p], [p, 1 - p]])
    found = []
    for ones in (bits.sum(axis=0), bits.sum(axis=1)):  # of each place, of each profile
        trials = bits.size // len(ones)
        counts = np.stack([trials - ones, ones], axis=1).astype(np.int64)
        # Independent groups: the sum has as many free outcomes as there are groups.
        divergence = float(hull_divergence(counts, channel).sum())
        found.append(tails.divergence_tail(divergence, len(ones) + 1))
    measured = f"{len(bits):,} profiles"
    free = np.ones(mechanism.length, np.bool_)
    if scope is not None:
        free[positions(scope, mechanism.hashes, mechanism.length)[0]] = False
        ones, trials = int(bits[:, free].sum()), bits[:, free].size
        found.append(tails.at_least_tail(ones, trials, p))
        found.append(tails.at_most_tail(ones, trials, p))
        measured += f"; {ones / max(1, trials):.4f} of {trials:,} free bits are 1, claimed {p:.4f}"
    return statistical(claim, tails.several(min(found), len(found)), measured, profiles=len(bits))


def _integers(
    claim: str, mechanism: Jlt, released: NDArray[np.uint8], scope: NDArray[np.uint64] | None
) -> Finding:
    values, variance = mechanism.integers(released).astype(np.float64), float(mechanism.variance)
    squares, length = (values**2).sum(axis=1), mechanism.length
    ratios = squares / (length * variance)
    found = [
        tails.several(tails.below_chi_square(float(ratios.min()), length), len(values)),
        tails.below_chi_square(float(ratios.mean()), length * len(values)),
    ]
    measured = f"{len(values):,} profiles"
    if scope is not None and len(scope) < length <= _MOST_PROJECTED:
        basis, _ = np.linalg.qr(signs(scope, length).T.astype(np.float64))
        left = values - (values @ basis) @ basis.T
        free = (length - basis.shape[1]) * len(values)
        ratio = float((left**2).sum() / (free * variance))
        found.append(tails.below_chi_square(ratio, free))
        found.append(tails.above_chi_square(ratio, free))
        measured += f"; {ratio:.4f} of the claimed variance in {free:,} free dimensions"
    elif scope is not None:
        found.append(
            tails.above_chi_square(
                float(ratios.mean()) / (1 + len(scope) / variance), length * len(values)
            )
        )
    return statistical(claim, tails.several(min(found), len(found)), measured, profiles=len(values))
