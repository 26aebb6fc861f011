"""The rows of `murmurec certify` for campaigns of noisy sums, and what is printed beside them."""

from __future__ import annotations

import math
import re
import time
from fractions import Fraction
from typing import Any

from stream_app.cli.output import plural
from stream_app.privacy.gaussian import naming
from stream_app.privacy.gaussian.certificate import CampaignCertificate
from stream_app.privacy.gaussian.sampling import gaussian_table
from stream_app.privacy.parsing import parse_fraction, shorten
from stream_app.privacy.privacy_map import Adjacency, InputMetric, OutputMeasure

FAMILY = naming.FAMILY
LARGEST_EPSILON = 64
_NUMBER = re.compile(r"[0-9]{1,13}(?:\.[0-9]{1,13}|/[0-9]{1,13})?", re.ASCII)
_MILLION = 10**6


def claim(epsilon: str | None) -> Fraction | None:
    """Return the epsilon of the command line, None where none is given; ValueError for others."""
    if epsilon is None:
        return None
    found = parse_fraction(epsilon, _NUMBER, "epsilon", "a number, as 8, 0.5 or 1/2")
    if not 0 < found <= LARGEST_EPSILON:
        raise ValueError(f"epsilon {shorten(epsilon)}: above 0 and at most {LARGEST_EPSILON}")
    return found


def row(name: str, epsilon: Fraction | None, delta: Fraction) -> dict[str, Any]:
    """Return the proof of a campaign's claim, or of the least epsilon without one.

    name: an id, or the family alone for one sum with the noise that the claim needs. The tables of
    the noise are computed again. ValueError for an unknown id or a table that is not the law's.
    """
    started = time.perf_counter()
    if name == FAMILY:
        if epsilon is None:
            raise ValueError("gaussian: give an epsilon, or bound, variance and size in an id")
        campaign = naming.within(epsilon, delta)
    else:
        campaign = naming.parse(name)
    campaign.check()
    claimed, shown = epsilon, str(epsilon)
    if claimed is None:
        claimed = Fraction(math.ceil(campaign.epsilon(delta) * _MILLION), _MILLION)
        shown = f"{float(claimed):.6f}"
    return {
        "mechanism": naming.name(campaign),
        "epsilon": shown,
        "adjacency": str(Adjacency.USER),
        "worst_log_ratio": None,
        "slack": None,
        "outputs": sum(2 * gaussian_table(each.variance).reach + 1 for each in campaign.sums),
        "delta": float(delta),
        "delta_bound": float(campaign.delta(claimed)),
        "input_metric": str(InputMetric.PERSON),
        "output_measure": str(OutputMeasure.APPROXIMATE),
        "square": float(campaign.square),
        "seconds": time.perf_counter() - started,
    }


def notes(id: str) -> list[str]:
    """Return sentences about a campaign: its curve, its distances, the digests of its tables."""
    campaign = naming.parse(id)
    return [
        f"{plural(len(campaign.sums), 'noisy sum')}, mu^2 = {float(campaign.square):.9g}: "
        + ", ".join(_point(campaign, exponent) for exponent in (5, 6, 9)),
        f"inputs by {InputMetric.PERSON}, releases by {OutputMeasure.APPROXIMATE}; a neighbour "
        "(distance 1) is one person's vectors or zeros in their place",
        *(
            f"noise of variance {each.variance}: digest {gaussian_table(each.variance).digest}"
            for each in campaign.sums
        ),
    ]


def _point(campaign: CampaignCertificate, exponent: int) -> str:
    epsilon = campaign.epsilon(Fraction(1, 10**exponent))
    return f"epsilon {float(epsilon):.6g} at delta 1e-{exponent}"
