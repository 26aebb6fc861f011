"""`murmurec recommend --local`: the best items for one user, ranked on this device."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stream_app.cli.commands import option
from stream_app.cli.device import mechanism_options
from stream_app.cli.options import Cluster, For, JsonOption, connection_from
from stream_app.cli.output import VISITS, described, notice, plural, printable, show
from stream_app.errors import UsageError

if TYPE_CHECKING:
    from producers.ranking import (
        CampaignTerms,
        LocalList,
        LocalRecommender,
        RatedItem,
    )
    from stream_app.settings import Settings
    from stream_app.wire import Listed

_MOST = 100  # items in the longest list
_UNITS = ((86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second"))


class By(StrEnum):
    """The two public tables."""

    campaign = "campaign"
    links = "links"


@dataclass(frozen=True)
class ListOptions:
    """Which list is made: its length, whether it names reasons, whether the broker is asked for a
    newer table, which table is taken, and the visit that it is for, None by the device's clock."""

    k: int = option(10, "Number of items, 1 to 100.", "N", "-k")
    because: bool = option(False, "Name the rated items behind each recommendation.")
    by: By | None = option(
        None, "Rank by noisy sums over people, or by reports; default: by privacy_mode."
    )
    for_: For | None = option(
        None,
        "What is liked at the next visit, or now, in this one; default: now for half an "
        "hour after a kept rating.",
        None,
        "--for",
    )
    offline: bool = option(False, "Use the cached table as it is.")

    def check(self) -> None:
        """Refuse a length out of range."""
        if not 1 <= self.k <= _MOST:
            raise UsageError(f"-k {self.k}: give 1 to {_MOST}")


def recommend(
    cluster: Cluster,
    options: ListOptions,
    user: str | None = option(
        None,
        "The user's own id, whose kept ratings count.",
        "ID",
        callback=mechanism_options.person,
    ),
    local: bool = option(False, "Rank on this device, without a query."),
    rated: Path | None = option(
        None,
        "More ratings, older than those kept: item[,rating[,time]] on each line, oldest "
        "first; the file stays on this device.",
        "FILE",
    ),
    scale: mechanism_options.ScaleOption = None,
    journal: mechanism_options.JournalOption = None,
    as_json: JsonOption = False,
) -> None:
    """Recommend items to a user from what this device knows; nothing about the user is sent.

    The public item side is read from Kafka, or from the cache where the broker does not answer.

    Example: murmurec recommend --local --user ann -k 10 --because
    """
    if not local:
        raise UsageError(
            "give --local to rank on this device; the server's list is what murmurec ask asks for"
        )
    if user is None and rated is None:
        raise UsageError("give --user ID, --rated FILE or both")
    options.check()
    settings = cluster.settings()
    history = _history(settings, user, rated, journal, scale)
    recommender, found = _ranked(settings, history, options)
    show(_row(recommender, found), _sentences(recommender, found), as_json=as_json)


def _history(
    settings: Settings,
    user: str | None,
    rated: Path | None,
    journal: Path | None,
    scale: tuple[float, float, float] | None,
) -> list[RatedItem]:
    """Return what the user has rated, oldest first: the lines of the file, then what was kept."""
    from producers.ranking import CleanHistory, rated_in
    from producers.scale import Scale

    found = (
        rated_in(rated, mechanism_options.scale_from(scale) or Scale()) if rated is not None else []
    )
    if user is None:
        return found
    mechanism_options.check_user(user)
    path = mechanism_options.journal_path(settings, journal)
    if not path.exists():
        if not found:
            notice(f"device journal {path}: does not exist, so no rating of this user is known")
        return found
    return found + CleanHistory(path).rated(mechanism_options.pseudonym_in(path, user, settings))


def _ranked(
    settings: Settings, history: list[RatedItem], options: ListOptions
) -> tuple[LocalRecommender, LocalList]:
    """Return the recommender and the list that it gives for a history."""
    from producers.ranking import LocalRecommender, visit_of

    recommender = LocalRecommender.from_kafka(
        connection_from(settings),
        settings.topic_prefix,
        cache_dir=settings.cache_dir,
        offline=options.offline,
        by=None if options.by is None else options.by.value,
        privacy_mode=settings.privacy_mode,
    )
    table = recommender.table
    if table.problem and not options.offline:
        notice(f"{table.problem}; ranked with the table that was read {_ago(table.fetched)}")
    visit = options.for_.value if options.for_ else visit_of(history, time.time())
    return recommender, recommender.recommend(
        history, options.k, because=options.because, for_=visit
    )


def _sentences(recommender: LocalRecommender, found: LocalList) -> Iterator[str]:
    """Yield the items, the reasons for them, and what the list is made from."""
    from stream_app.wire import Unlisted, key

    table = recommender.table
    for rank, row in enumerate(found.items, 1):
        shown = described(row.title or "", *_features(recommender, row.item))
        yield f"{rank:4}  {printable(f'{row.item}  {shown}').rstrip()}"
        if row.because:
            names = (table.title(key(item)) or str(item) for item in row.because)
            yield f"      because of {printable(', '.join(names))}"
    if any(isinstance(row.item, Unlisted) for row in found.items):
        yield "an item shown as key: has a word for its id that the catalogue lacks"
    if not found.items:
        yield "nothing is left to recommend: every item of the table is rated or withdrawn"
    if found.method == "popular":
        yield _why_popular(found)
    elif found.known < found.rated:
        yield f"{found.known} of {plural(found.rated, 'rated item')} are in the table"
    source = f"as of cut {found.as_of}" if found.campaign is None else _terms(found.campaign)
    yield (
        f"method {found.method}{VISITS[found.for_]}, {source}, ranked on this device with the "
        f"table that was read {_ago(table.fetched)}; no rating and no query was sent"
    )
    if found.reason:
        yield found.reason


def _terms(campaign: CampaignTerms) -> str:
    """Return which campaign a list is from, and what it costs a person."""
    mode = "central" if campaign.parties == 1 else "split"
    return (
        f"campaign {campaign.number} ({mode}, {campaign.released} of "
        f"{plural(campaign.stages, 'stage')} released, epsilon {float(campaign.epsilon):g} at "
        f"delta {float(campaign.delta):g} for everything that a person has rated)"
    )


def _features(recommender: LocalRecommender, item: Listed) -> tuple[tuple[str, ...], int | None]:
    """Return genres and year of an item of a list."""
    from stream_app.wire import key_of

    entry = recommender.table.entries.get(key_of(item))
    return (entry.genres, entry.year) if entry else ((), None)


def _why_popular(found: LocalList) -> str:
    if found.known:
        return (
            "the popular items: nothing that the user likes is among the items whose directions of "
            "taste were released, or there are too few directions and no genres and years"
        )
    if found.rated:
        return (
            f"the popular items: none of {plural(found.rated, 'rated item')} is in the table of "
            "head items"
        )
    return (
        "the popular items: no rating of this user is kept on this device; rate with murmurec "
        "publish, or give --rated FILE"
    )


def _row(recommender: LocalRecommender, found: LocalList) -> dict[str, Any]:
    from msgspec import to_builtins

    row, table = asdict(found), recommender.table
    for item in row["items"]:
        item["genres"], item["year"] = _features(recommender, item["item"])
        item["item"] = to_builtins(item["item"])
    if found.campaign is not None:
        terms = found.campaign
        row["campaign"] |= {"epsilon": float(terms.epsilon), "delta": float(terms.delta)}
    return row | {
        "for": row.pop("for_"),
        "where": "device",
        "table_age_seconds": max(0.0, time.time() - table.fetched),
        "cached": bool(table.problem),
    }


def _ago(fetched: float) -> str:
    """Return how long ago a time (seconds since 1970) was, in its largest unit."""
    seconds = max(0.0, time.time() - fetched)
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{plural(int(seconds // size), unit)} ago"
    return "just now"
