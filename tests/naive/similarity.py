"""Slope One and cosine by their formulas, one pair and one item at a time (Park and Acharya 2011).

Profiles are dictionaries from an item to stars.
"""

from __future__ import annotations

import math

Profile = dict[int, float]


def deviation(profiles: list[Profile], j: int, k: int, beta: float | None, least: int = 0) -> float:
    """s_jk of Slope One: damped, or the mean over more than `least` co-raters."""
    found = [each[j] - each[k] for each in profiles if j in each and k in each]
    if beta is None:
        return sum(found) / len(found) if len(found) > max(least, 0) else 0.0
    return sum(found) / (len(found) + beta) if len(found) + beta > 0 else 0.0


def deviation_towards_means(profiles: list[Profile], j: int, k: int, beta: float) -> float:
    """s_jk of Slope One, damped towards the difference of the damped means of both items."""

    def mean(item: int) -> float:
        found = [each[item] - 3 for each in profiles if item in each]
        return sum(found) / (len(found) + beta) if len(found) + beta > 0 else 0.0

    found = [each[j] - each[k] for each in profiles if j in each and k in each]
    below = len(found) + beta
    return (sum(found) + beta * (mean(j) - mean(k))) / below if below > 0 else 0.0


def slope_one(
    profiles: list[Profile], own: Profile, j: int, beta: float | None, least_profile: int | None
) -> float:
    """f_j of the user with the profile `own`."""
    if not own:
        return 3.0
    terms = [r + deviation(profiles, j, k, beta) for k, r in own.items()]
    if least_profile is None:
        return sum(terms) / len(terms)
    inside = [min(max(t, 1.0), 5.0) - 3.0 for t in terms]
    return 3.0 + sum(inside) / max(len(own), least_profile)


def cosine(profiles: list[Profile], j: int, k: int, beta: float) -> float:
    """s_jk of cosine; 0 of an item with itself and where a norm is 0."""
    if j == k:
        return 0.0
    norm_j = sum(j in each for each in profiles) + beta
    norm_k = sum(k in each for each in profiles) + beta
    both = sum(j in each and k in each for each in profiles)
    return both / math.sqrt(norm_j * norm_k) if norm_j * norm_k > 0 else 0.0


def cosine_score(
    profiles: list[Profile], own: Profile, j: int, beta: float, least_profile: int
) -> float:
    """f_j of the user with the profile `own`."""
    found = sum(cosine(profiles, j, k, beta) for k in own)
    return found / max(len(own), least_profile, 1)
