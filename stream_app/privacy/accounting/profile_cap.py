"""The cap of a profile that a budget holds, and what one profile costs the whole person.

A profile mechanism with a cap of N items releases N of a profile's items at most, so that a profile
of any size costs the person what N items can change, composed exactly (`whole_person.py`). The cap
of a device is the largest N with which one profile fits the budget that a person has unless another
is stated. It follows from the mechanism and that budget alone, and is the same for all devices.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from stream_app.privacy.accounting.budget_plans import fits
from stream_app.privacy.accounting.whole_person import report_loss
from stream_app.privacy.profiles.jlt import JltPaper
from stream_app.privacy.profiles.profile_mechanism import MOST_ITEMS, ProfileMechanism


def within(
    made: Callable[..., ProfileMechanism], epsilon: Fraction, delta: Fraction
) -> ProfileMechanism:
    """Return a mechanism with the largest cap, `made(most=cap)`, of which one profile fits
    (epsilon, delta).

    Without a cap where every profile fits, where nothing is protected, and for a reproduction; with
    a cap of 1 where not even that fits.
    """
    whole = made()
    if whole.epsilon is None or isinstance(whole, JltPaper):
        return whole
    if fits(((whole.id, 1),), epsilon, delta, MOST_ITEMS):
        return whole
    id = made(most=MOST_ITEMS - 1).id  # the noise is that of every cap
    once, low, high = ((id, 1),), 1, 2
    while high < MOST_ITEMS - 1 and fits(once, epsilon, delta, high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(once, epsilon, delta, middle) else (low, middle)
    return made(most=low)


def profile_cost(mechanism: ProfileMechanism, delta: Fraction) -> float:
    """Return the epsilon that one profile costs a person at this delta, rounded up; inf where the
    noise hides no profile of so many items, or there is none."""
    if mechanism.epsilon is None:
        return math.inf
    return report_loss(mechanism.id).epsilon(float(delta))
