"""What `murmurec ask` asks and what is answered, alike over Kafka and a gateway; how it prints.

Titles over Kafka are those of the public catalogue, if the reader may read it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from math import isnan
from typing import TYPE_CHECKING, Any, NotRequired, TypedDict

from stream_app.cli.options import reached
from stream_app.cli.output import VISITS, described, printable, say
from stream_app.errors import UsageError, UserError

if TYPE_CHECKING:
    from consumers.recommendations import RecommendedItems
    from stream_app.kafka.clients import Connection
    from stream_app.serving.catalogue import Catalogue
    from stream_app.wire import Listed


MOST = 100  # items in the longest answer


@dataclass(frozen=True)
class Asked:
    """A query: a pseudonym, or none for items near to one; the number of items; seconds to wait;
    the keys of items to leave out here, None where no file was given; and the options; `now`: for
    this visit."""

    user: str | None
    k: int
    seconds: float
    rated: frozenset[int] | None
    similar_to: int | str | None = None
    now: bool = False


class AnswerItem(TypedDict):
    """An item of an answer, {"key": hex} without an id in the catalogue; `score` is a predicted
    rating; `because` the rated item that contributes most, None where the
    server knows of none."""

    item: int | str | dict[str, str]
    score: float | None
    title: NotRequired[str | None]
    genres: NotRequired[list[str]]
    year: NotRequired[int | None]
    because: NotRequired[int | str | dict[str, str] | None]
    because_title: NotRequired[str | None]


_For = TypedDict("_For", {"for": NotRequired[str | None]})


class Answer(_For):
    """An answer of a gateway; an answer over Kafka has the same fields.

    `left_out`: number of items of the longest list that are not shown because they were rated.
    `ndcg`: measured nDCG@10 of the lists of `method`, `ndcg_popular` that of popular items. `for`:
    the visit that a user's list is for.
    """

    user: str | None
    items: list[AnswerItem]
    method: str
    as_of: int
    privacy: str
    ndcg: NotRequired[float | None]
    ndcg_popular: NotRequired[float | None]
    seconds: NotRequired[float]
    left_out: NotRequired[int]


def show(answer: Answer) -> None:
    """Print the items of an answer, what each is for, and where they come from."""
    for rank, row in enumerate(answer["items"], 1):
        shown = described(row.get("title") or "", row.get("genres", []), row.get("year"))
        named = printable(f"{_listed(row['item'])}  {shown}")
        score = row["score"]
        say(f"{rank:4}  {'' if score is None else f'{score:.2f}  '}{named}".rstrip())
        cause = row.get("because")
        if cause is not None:
            rated = printable(row.get("because_title") or str(_listed(cause)))
            say(f"            because you rated {rated}")
    if any(isinstance(row["item"], dict) for row in answer["items"]):
        say("an item shown as key: has a word for its id: murmurec items put WORD shows the word")
    if not answer["items"]:
        left_out = answer.get("left_out", 0)
        say(
            f"all {left_out} items of the answer are in the file of --rated"
            if left_out
            else "nothing to recommend yet"
        )
    of_user = answer["user"] is not None
    say(
        f"by {answer['method']}{VISITS.get(answer.get('for') or '', '')}"
        f"{_measured(answer) if of_user else ''}; "
        f"as of cut {answer['as_of']}, privacy {answer['privacy']}, "
        f"{answer['seconds'] * 1000:.1f} ms; "
        f"scores are predicted ratings{'' if of_user else ' of the average user'} on 1 .. 5"
    )


def _listed(item: int | str | dict[str, str]) -> Listed:
    from stream_app.wire import Unlisted

    return Unlisted(**item) if isinstance(item, dict) else item


def _measured(answer: Answer) -> str:
    """Return the measured quality of the lists, beside that of popular items."""
    ndcg, popular = answer.get("ndcg"), answer.get("ndcg_popular")
    if ndcg is None or popular is None:
        return ", nDCG@10 not measured yet"
    beside = "" if answer["method"] == "popular" else f" (popular {popular:.2f})"
    return f", nDCG@10 {ndcg:.2f}{beside}".replace(" 0.", " .")


def answer_over_kafka(settings: Any, asked: Asked) -> Answer:
    """Return the answer of the first worker that replies."""
    from consumers.recommendations import Recommendations

    connection, _ = reached(settings)
    with Recommendations(connection, settings.topic_prefix) as recommendations:
        if asked.similar_to is not None:
            best = recommendations.similar(asked.similar_to, asked.k, asked.seconds, asked.rated)
        else:
            best = recommendations.best(
                asked.user or "",
                asked.k,
                asked.seconds,
                asked.rated,
                for_="now" if asked.now else "next",
            )
    catalogue = None
    if best.items or best.left_out:
        catalogue = _catalogue(connection, settings.topic_prefix)
    return _answer_of(asked, best, catalogue)


def _answer_of(asked: Asked, best: RecommendedItems, catalogue: Catalogue | None) -> Answer:

    rows = zip(best.items, best.scores, best.because, strict=True)
    answer: Answer = {
        "user": asked.user,
        "items": [_row(item, score, cause, catalogue) for item, score, cause in rows],
        "method": best.method,
        "as_of": best.as_of,
        "privacy": best.privacy,
        "ndcg": best.ndcg,
        "ndcg_popular": best.ndcg_popular,
        "for": best.for_,
        "seconds": best.seconds,
    }
    if asked.rated is not None:
        answer["left_out"] = best.left_out
    return answer


def _row(
    item: Listed, score: float, cause: Listed | None, catalogue: Catalogue | None
) -> AnswerItem:
    import msgspec

    from stream_app.wire import key_of

    shown = None if isnan(score) else score
    row: AnswerItem = {
        "item": msgspec.to_builtins(item),
        "score": shown,
        "because": msgspec.to_builtins(cause),
    }
    if catalogue is not None:
        entry = catalogue.entry(key_of(item))
        row |= {"title": entry.title, "genres": list(entry.genres), "year": entry.year}
        row["because_title"] = None if cause is None else catalogue.title(key_of(cause))
    return row


def _catalogue(connection: Connection, prefix: str) -> Catalogue | None:
    """Return the public catalogue, None where the reader has no right to read it.

    An answer over Kafka carries no titles, and a reader of answers needs no other right.
    """
    from stream_app.cli.catalogue_titles import catalogue_from

    try:
        return catalogue_from(connection, prefix)
    except UserError:
        return None


def answer_over_http(url: str, asked: Asked) -> Answer:
    """Return the answer of the gateway at `url`."""
    from stream_app.wire import key_of

    if not url.startswith(("http://", "https://")):
        raise UsageError(f"--url {url}: give an address such as http://127.0.0.1:8480")
    started = time.monotonic()
    answer = _asked_over_http(url, asked)
    answer["seconds"] = time.monotonic() - started
    rated = asked.rated
    unrated = [row for row in answer["items"] if key_of(_listed(row["item"])) not in (rated or ())]
    if rated is not None:
        answer["left_out"] = len(answer["items"]) - len(unrated)
    answer["items"] = unrated[: asked.k]
    return answer


def _asked_over_http(url: str, asked: Asked) -> Answer:
    from http.client import HTTPException

    import msgspec

    from stream_app.operations.watching.workers import page

    found: Any = None
    try:
        found = msgspec.json.decode(page(url, _path(asked), None, asked.seconds), type=Answer)
    except (OSError, HTTPException, ValueError):
        # No listener, another protocol, an invalid address or an answer of another form.
        raise UserError(
            f"no gateway answered at {url}: start one (murmurec gateway), or ask over Kafka "
            "(without --http)"
        ) from None
    answer: Answer = found
    return answer


def _path(asked: Asked) -> str:
    from urllib.parse import quote

    k = asked.k if asked.rated is None else MOST
    if asked.similar_to is not None:
        return f"/similar?item={quote(str(asked.similar_to), safe='')}&k={k}"
    options = "for=now&" * asked.now
    return f"/recommendations/{asked.user}?{options}k={k}"
