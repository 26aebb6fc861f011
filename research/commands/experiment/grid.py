"""The grid of an experiment: which cells it has, and what cannot be asked of them.

model       a learner; of ratings alone slope-one, ..., item-means; of lists alone popular,
            recent-popular, EASE. Baselines see the true ratings, and have no mechanism
mechanism   an id such as rr:5:2; none; for lists central:2 and split:2, campaigns with the
            epsilon of a whole person, which have a model of their own
split       of lists. Predicted ratings are tested prequentially; in one pass, on a random
            split, where presence is protected (over a public scope)
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from producers.datasets.load import Dataset, is_timed
from research.co_rated import CO_RATED
from stream_app.evaluation.campaigns import MODES
from stream_app.evaluation.ranking import baselines
from stream_app.models.baselines.learners import LEARNERS
from stream_app.models.factorization.factory import LEARNERS as SERVED
from stream_app.privacy import registry
from stream_app.privacy.parsing import parse_fraction
from stream_app.privacy.privacy_map import Adjacency

ITEM_MEANS, CAMPAIGN, NONE = "item-means", "campaign", "none"
OF_LISTS = {
    "popular": baselines.popular,
    "recent-popular": baselines.recently_popular,
    "EASE": baselines.ease,
}
MODELS = (*LEARNERS, *CO_RATED, ITEM_MEANS, *OF_LISTS)
SPLITS = ("global", "visit", "user-time")
IN_TIME = SPLITS[:2]
PREQUENTIAL, SCOPE = "prequential", "scope"
MOST_SEEDS = 30
PERSON = Adjacency.USER.value
_EPSILONS = ("1/2", "1", "2", "3", "4", "6", "8")
_FEW = ("1", "2", "4")
_NUMBER = re.compile(r"[0-9]{1,6}(\.[0-9]{1,6}|/[0-9]{1,6})?")


@dataclass(frozen=True)
class Grid:
    """What is measured; `seeds` of noise and hashes, from `seed` on. Raises ValueError for a name
    that is none and for numbers out of range."""

    models: tuple[str, ...]
    mechanisms: tuple[str, ...]
    splits: tuple[str, ...]
    seeds: int = 3
    seed: int = 0
    factors: int = 32
    scope: int | None = None

    def __post_init__(self) -> None:
        for name, given, known in (
            ("models", self.models, MODELS),
            ("splits", self.splits, SPLITS),
        ):
            for each in given:
                if each not in known:
                    raise ValueError(f"{name} {each[:40]}: choose some of {', '.join(known)}")
        if not self.models or not self.mechanisms:
            raise ValueError("models, mechanisms: give one of each at least")
        if not 1 <= self.seeds <= MOST_SEEDS:
            raise ValueError(f"seeds {self.seeds}: give 1 to {MOST_SEEDS}")
        if not 0 <= self.seed < 2**63 - MOST_SEEDS:
            raise ValueError(f"seed {self.seed}: give a number from 0 to 2^63-{MOST_SEEDS + 1}")
        if not 1 <= self.factors <= 256:
            raise ValueError(f"factors {self.factors}: give 1 to 256")
        if self.scope is not None and self.scope < 1:
            raise ValueError(f"scope {self.scope}: give 1 or more")


class Cell(NamedTuple):
    """One measurement."""

    model: str
    mechanism: str
    split: str
    seed: int


def cells_of(grid: Grid, data: Dataset) -> list[Cell]:
    """Return the cells, each once; ValueError for what these ratings or a model cannot take."""
    for split in grid.splits:
        if split in IN_TIME and not is_timed(data.timestamps):
            raise ValueError(f"splits {split}: {data.name} has no times; choose {SPLITS[-1]}")
    asked = [
        Cell(*way, seed)
        for split in (None, *grid.splits)
        for way in _ways(grid, split, data.scale.levels)
        for seed in range(grid.seed, grid.seed + grid.seeds)
    ]
    if not asked:
        raise ValueError(f"splits: lists of {', '.join(grid.models)} are tested on some; name one")
    return list(dict.fromkeys(asked))


def _ways(grid: Grid, split: str | None, levels: int) -> Iterator[tuple[str, str, str]]:
    """Yield model, mechanism and test of ratings, for `split` None, or of lists."""
    for model in grid.models:
        for given in grid.mechanisms:
            mechanism = f"none:{levels}:inf" if given == NONE else given
            test = _checked(mechanism, levels)
            if model in CO_RATED and test == SCOPE:
                raise ValueError(
                    f"models {model}: needs a mechanism with public presence, such as "
                    f"rr:{levels}:2; leave {mechanism} out"
                )
            if not test and split:
                yield CAMPAIGN, mechanism, split
            if model in (ITEM_MEANS, *OF_LISTS):
                if (split is None) == (model == ITEM_MEANS):
                    yield model, NONE, split or PREQUENTIAL
            elif test and (split is None or model in SERVED):
                yield model, mechanism, split or test


def _checked(mechanism: str, levels: int) -> str:
    """Return how predicted ratings are tested, "" of a campaign; ValueError for neither."""
    if not _mode(mechanism):
        return test_of_ratings(mechanism, levels)
    person_epsilon(mechanism)
    return ""


def test_of_ratings(mechanism: str, levels: int) -> str:
    """Return how predicted ratings are tested; ValueError for what is no mechanism of these."""
    try:
        chosen = registry.parse(mechanism)
    except ValueError:
        raise ValueError(
            f"mechanisms {mechanism[:40]}: give an id such as rr:{levels}:2, of "
            f"{', '.join(registry.protecting())}; none; or a campaign, central:2 or split:2"
        ) from None
    if chosen.levels != levels:
        raise ValueError(f"mechanisms {mechanism}: the ratings have {levels} levels; name so many")
    return SCOPE if chosen.inputs > chosen.levels else PREQUENTIAL


def _mode(mechanism: str) -> str:
    mode = mechanism.partition(":")[0]
    return mode if mode in MODES else ""


def person_epsilon(mechanism: str) -> tuple[str, Fraction]:
    """Return mode and epsilon of a campaign; ValueError for a text that is none."""
    mode, _, text = mechanism.partition(":")
    epsilon = parse_fraction(text, _NUMBER, f"mechanisms {mode}: epsilon", "2, 0.5 or 1/2")
    if not epsilon:
        raise ValueError(f"mechanisms {mechanism}: give an epsilon above 0")
    return mode, epsilon


def promised(mechanism: str) -> tuple[str, float | None]:
    """Return adjacency and epsilon of a cell's mechanism."""
    if mechanism == NONE:
        return Adjacency.NOTHING.value, None
    if _mode(mechanism):
        return PERSON, float(person_epsilon(mechanism)[1])
    chosen = registry.parse(mechanism)
    return chosen.adjacency.value, None if chosen.epsilon is None else float(chosen.epsilon)


def usual(data: Dataset, preset: str | None) -> dict[str, Sequence[str]]:
    """Return the grid that a command line without one has: the default, or that of a preset."""
    levels, all_of_them = data.scale.levels, preset == "tradeoff"
    families = registry.protecting() if all_of_them else ("rr",)
    found = [NONE]
    for family in families:
        with suppress(ValueError):  # a family for fewer levels
            for epsilon in _EPSILONS if all_of_them else _FEW:
                found.append(registry.mechanism(family, levels, epsilon).id)
    if all_of_them:
        return {"models": ("dense", ITEM_MEANS), "mechanisms": found, "splits": ()}
    splits = SPLITS if is_timed(data.timestamps) else SPLITS[-1:]
    models = ("hybrid", ITEM_MEANS, "popular", "EASE")
    return {"models": models, "mechanisms": found, "splits": splits}
