"""Every figure that can be computed again, by id: one row each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from murmurec.ratings import item_keys, user_keys
from producers.datasets.load import Dataset
from research.commands.reproduce.sources import Sources
from research.papers import (
    balu_2016_codes,
    balu_2016_factorization,
    balu_2016_profiles,
    guerraoui_2017,
    park_2011,
    park_2011_sets,
    zheng_2016,
)
from research.papers.figure import Figure, StarRatings
from research.papers.systems import PAPERS
from research.xmap.task import two_domains
from stream_app.cli.output import Advance
from stream_app.errors import UsageError

Run = Callable[[Sources, Advance], Figure]
_FEW = tuple(map(Fraction, (1, 4, 8)))


@dataclass(frozen=True)
class Reproducible:
    """A figure by id; `paper`: key of the bibliography; `data`: what it is computed from."""

    id: str
    paper: str
    shows: str
    data: str
    run: Run


def _stars(dataset: Dataset) -> StarRatings:
    return StarRatings(user_keys(dataset.users), item_keys(dataset.items), dataset.ratings)


def _f1(sources: Sources, advance: Advance) -> Figure:
    return zheng_2016.f1(_stars(sources.ratings("ml-100k")), progress=advance)


def _f2(sources: Sources, advance: Advance) -> Figure:
    ratings = _stars(sources.ratings("ml-100k"))
    scope, epsilons = (100, _FEW) if sources.quick else (300, zheng_2016.ERROR_EPSILONS)
    return zheng_2016.f2(
        ratings, scope=scope, epsilons=epsilons, progress=advance, seed=sources.seed
    )


def _c1(sources: Sources, advance: Advance) -> Figure:
    ratings = _stars(sources.ratings("ml-100k"))
    epsilons = _FEW if sources.quick else zheng_2016.BOUND_EPSILONS
    return zheng_2016.c1(ratings, epsilons=epsilons, progress=advance, seed=sources.seed)


def _f3(sources: Sources, advance: Advance) -> Figure:
    return park_2011.f3(
        _stars(sources.ratings("ml-100k")),
        people=20 if sources.quick else 100, seed=sources.seed, progress=advance,
    )  # fmt: skip


def _f4(sources: Sources, advance: Advance) -> Figure:
    return park_2011.f4(
        _stars(sources.ratings("ml-100k")),
        people=100 if sources.quick else 400, seed=sources.seed, progress=advance,
    )  # fmt: skip


def _f5(sources: Sources, advance: Advance) -> Figure:
    return park_2011.f5(
        _stars(sources.ratings("ml-100k")),
        people=100 if sources.quick else 400, seed=sources.seed, progress=advance,
    )  # fmt: skip


def _f6(sources: Sources, advance: Advance) -> Figure:
    people, steps = (5, 100) if sources.quick else (20, 1_000)
    return park_2011_sets.f6(
        _stars(sources.ratings("ml-100k")),
        people=people, steps=steps, seed=sources.seed, progress=advance,
    )  # fmt: skip


def _f7(sources: Sources, advance: Advance) -> Figure:
    return park_2011_sets.f7(
        _stars(sources.ratings("ml-100k")), seed=sources.seed, progress=advance
    )


def _f9(sources: Sources, advance: Advance) -> Figure:
    return _of_profiles(balu_2016_profiles.f9, sources, advance)


def _f10(sources: Sources, advance: Advance) -> Figure:
    return _of_profiles(balu_2016_profiles.f10, sources, advance)


def _f11(sources: Sources, advance: Advance) -> Figure:
    return _of_profiles(balu_2016_profiles.f11, sources, advance)


def _of_profiles(figure: Callable[..., Figure], sources: Sources, advance: Advance) -> Figure:
    return figure(
        _stars(sources.ratings("ml-100k")),
        people=4 if sources.quick else 24, seed=sources.seed, progress=advance,
    )  # fmt: skip


def _t4_2(sources: Sources, advance: Advance) -> Figure:
    folds, epochs = (1, 3) if sources.quick else (3, 20)
    return balu_2016_factorization.t4_2(
        _stars(sources.ratings("ml-1m")), folds, epochs, not sources.quick, sources.seed, advance
    )


def _f4_1(sources: Sources, advance: Advance) -> Figure:
    return _by_epochs(balu_2016_factorization.f4_1, sources, advance)


def _f4_3(sources: Sources, advance: Advance) -> Figure:
    return _by_epochs(balu_2016_factorization.f4_3, sources, advance)


def _f4_4(sources: Sources, advance: Advance) -> Figure:
    ratings = _stars(sources.ratings("ml-1m"))
    return balu_2016_factorization.f4_4(ratings, seed=sources.seed, progress=advance)


def _f4_5(sources: Sources, advance: Advance) -> Figure:
    return _by_epochs(balu_2016_factorization.f4_5, sources, advance)


def _f4_7(sources: Sources, advance: Advance) -> Figure:
    return _by_epochs(balu_2016_factorization.f4_7, sources, advance, 100)


def _by_epochs(
    figure: Callable[..., Figure], sources: Sources, advance: Advance, epochs: int = 20
) -> Figure:
    return figure(
        _stars(sources.ratings("ml-1m")),
        epochs=3 if sources.quick else epochs, seed=sources.seed, progress=advance,
    )  # fmt: skip


def _t5_1(sources: Sources, advance: Advance) -> Figure:
    count, frames = (20_000, 1) if sources.quick else (1_000_000, 3)
    sources.used.append(f"generated, {count:,} directions")
    return balu_2016_codes.t5_1(count=count, frames=frames, seed=sources.seed, progress=advance)


def _f5_1(sources: Sources, advance: Advance) -> Figure:
    pairs = 200 if sources.quick else 2000
    sources.used.append(f"generated, {pairs:,} pairs of directions")
    return balu_2016_codes.f5_1(pairs=pairs, seed=sources.seed, progress=advance)


def _f5_2(sources: Sources, advance: Advance) -> Figure:
    count, queries = (50_000, 100) if sources.quick else (1_000_000, 300)
    sources.used.append(f"generated, {count:,} directions")
    return balu_2016_codes.f5_2(
        count=count, queries=queries, seed=sources.seed, progress=advance,
        descriptors=sources.descriptors(),
    )  # fmt: skip


def _f20(sources: Sources, advance: Advance) -> Figure:
    found = sources.two_domains()
    ratings = two_domains(found.users, found.items, found.stars, found.in_target)
    return guerraoui_2017.f20(
        ratings, draws=1 if sources.quick else 3, seed=sources.seed, progress=advance
    )


FIGURES: tuple[Reproducible, ...] = (
    Reproducible("F20", "S000", "error of X-Map for cold users", "amazon-books-movies", _f20),
    Reproducible("F1", "S001", "cells published, real and fake", "ml-100k", _f1),
    Reproducible("F2", "S001", "error of what is learned from reports", "ml-100k", _f2),
    Reproducible("C1", "S001", "recovery by the nuclear norm, and its bound", "ml-100k", _c1),
    Reproducible("F3", "S003", "items of a list that noise replaces", "ml-100k", _f3),
    Reproducible("F4", "S003", "one rating guessed from noised scores", "ml-100k", _f4),
    Reproducible("F5", "S003", "risk against utility", "ml-100k", _f5),
    Reproducible("F6", "S003", "overlap of a private set with the best ten", "ml-100k", _f6),
    Reproducible("F7", "S003", "divergence of the chain and of exact draws", "ml-100k", _f7),
    Reproducible("F9", "S004", "profiles reconstructed from one release", "ml-100k", _f9),
    Reproducible("F10", "S004", "the first ten items of a reconstruction", "ml-100k", _f10),
    Reproducible("F11", "S004", "neighbours against reconstruction", "ml-100k", _f11),
    Reproducible("T4.2", "S004", "error of factorization in a sketch", "ml-1m", _t4_2),
    Reproducible("F4.1", "S004", "error by components and compression", "ml-1m", _f4_1),
    Reproducible("F4.3", "S004", "error by epoch", "ml-1m", _f4_3),
    Reproducible("F4.4", "S004", "error after one pass", "ml-1m", _f4_4),
    Reproducible("F4.5", "S004", "error by the pull lambda", "ml-1m", _f4_5),
    Reproducible("F4.7", "S004", "error where large errors are skipped", "ml-1m", _f4_7),
    Reproducible("T5.1", "S004", "error, entropy and time of short codes", "generated", _t5_1),
    Reproducible("F5.1", "S004", "error of a cosine estimated from a code", "generated", _f5_1),
    Reproducible("F5.2", "S004", "the nearest vector, found by codes", "generated, sift", _f5_2),
)


def chosen(names: Sequence[str]) -> list[Reproducible]:
    """Return the figures of papers or ids, each once in the order of the table; UsageError for a
    name that is none."""
    papers = {paper.key.lower(): paper.key for paper in PAPERS}
    papers |= {paper.slug: paper.key for paper in PAPERS}
    ids = {figure.id.lower(): figure.id for figure in FIGURES}
    wanted = set()
    for name in names:
        key = papers.get(name.lower()) or ids.get(name.lower())
        if key is None:
            raise UsageError(
                f"{name!r} is no paper and no figure: give some of "
                f"{', '.join(sorted({figure.paper for figure in FIGURES}))} or "
                f"{', '.join(figure.id for figure in FIGURES)}"
            )
        if key not in {figure.paper for figure in FIGURES} | set(ids.values()):
            raise UsageError(f"{name!r}: no figure of this paper can be computed here")
        wanted.add(key)
    return [figure for figure in FIGURES if {figure.id, figure.paper} & wanted]
