"""Campaigns of noisy sums by name, as `murmurec certify` takes and prints them.

    gaussian:1000:5600000:12000                    one sum: bound, variance, coordinates
    gaussian:100:31809:300+100:63617/2:9000        two stages, one after the other

A variance is an integer or a fraction in lowest terms. An id is canonical: `parse` refuses
`gaussian:0100:31809:300`. `within` makes the sum that a claim of (epsilon, delta) allows.
"""

from __future__ import annotations

import re
from fractions import Fraction

from stream_app.privacy.gaussian.certificate import (
    CampaignCertificate,
    NoisySum,
    largest_square,
    least_variance,
)
from stream_app.privacy.parsing import shorten

FAMILY = "gaussian"
MOST_STAGES = 64
_SUM = re.compile(r"([0-9]{1,10}):([0-9]{1,13}(?:/[0-9]{1,13})?):([0-9]{1,10})", re.ASCII)
_BOUND, _SIZE = 100, 45_000  # of a campaign that is named by its claim alone


def name(campaign: CampaignCertificate) -> str:
    """Return the id of a campaign."""
    return f"{FAMILY}:" + "+".join(map(str, campaign.sums))


def parse(id: str) -> CampaignCertificate:
    """Return the campaign that a canonical id names; ValueError for any other text, and for noise
    so small that it protects nothing."""
    family, _, rest = id.partition(":")
    found = [_SUM.fullmatch(stage) for stage in rest.split("+", MOST_STAGES)]
    if family != FAMILY or None in found or len(found) > MOST_STAGES:
        raise ValueError(
            f"campaign {shorten(id)}: an id is gaussian:bound:variance:size, with at most "
            f"{MOST_STAGES} stages joined by +, such as gaussian:100:31809:300+100:21206:9000"
        )
    try:
        campaign = CampaignCertificate(
            tuple(
                NoisySum(int(match[1]), Fraction(match[2]), int(match[3]))
                for match in found
                if match
            )
        )
    except ZeroDivisionError:
        raise ValueError(f"campaign {shorten(id)}: a variance has the denominator 0") from None
    if name(campaign) != id:
        raise ValueError(f"campaign {id!r}: not the canonical id; write {name(campaign)!r}")
    campaign.check_cost()
    return campaign


def within(epsilon: Fraction, delta: Fraction) -> CampaignCertificate:
    """Return one sum of 45,000 coordinates and bound 100 with the least noise for this claim."""
    variance = least_variance(_BOUND, largest_square(epsilon, delta, _SIZE))
    return CampaignCertificate((NoisySum(_BOUND, variance, _SIZE),))
