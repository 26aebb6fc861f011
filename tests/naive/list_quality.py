"""The obvious version of the figures of lists: one user, one place at a time."""

from __future__ import annotations

import math
from itertools import combinations


def ndcg(lists: list[list[int]], relevant: list[list[int]]) -> float:
    users = []
    for places, wanted in zip(lists, relevant, strict=True):
        if not wanted:
            continue
        gain = 0.0
        for rank, item in enumerate(places, 1):
            if item in wanted:
                gain += 1 / math.log2(rank + 1)
        perfect = 0.0
        for rank in range(1, min(len(wanted), len(places)) + 1):
            perfect += 1 / math.log2(rank + 1)
        users.append(gain / perfect if perfect else 0.0)
    return sum(users) / len(users) if users else math.nan


def recall(lists: list[list[int]], relevant: list[list[int]]) -> float:
    users = []
    for places, wanted in zip(lists, relevant, strict=True):
        if wanted:
            found = sum(item in wanted for item in places)
            users.append(found / max(1, min(len(places), len(wanted))))
    return sum(users) / len(users) if users else math.nan


def hit_rate(lists: list[list[int]], relevant: list[list[int]]) -> float:
    users = []
    for places, wanted in zip(lists, relevant, strict=True):
        if wanted:
            users.append(float(any(item in wanted for item in places)))
    return sum(users) / len(users) if users else math.nan


def coverage(lists: list[list[int]], items: int) -> float:
    return len({item for places in lists for item in places if item >= 0}) / items


def overlap(lists: list[list[int]]) -> float:
    shares = []
    for first, second in combinations(lists, 2):
        shared = {item for item in first if item >= 0} & set(second)
        shares.append(len(shared) / len(first))
    return sum(shares) / len(shares) if shares else math.nan


def popularity_share(lists: list[list[int]], popular: list[int]) -> float:
    placed = [item for places in lists for item in places if item >= 0]
    return sum(item in popular for item in placed) / len(placed) if placed else math.nan
