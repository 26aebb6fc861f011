"""A query over Kafka; titles are those of the public catalogue, where the reader may read it."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any

from stream_app.cli.options import connection_from
from stream_app.cli.reader.asking.answer import Answer, AnswerItem, Asked
from stream_app.errors import UserError

if TYPE_CHECKING:
    from consumers.recommendations import RecommendedItems
    from stream_app.kafka.clients import Connection
    from stream_app.serving.catalogue import Catalogue


def answer_over_kafka(settings: Any, asked: Asked) -> Answer:
    """Return the answer of the first worker that replies."""
    from consumers.recommendations import Recommendations
    from stream_app.kafka import clients

    connection = connection_from(settings)
    clients.describe_cluster(connection)
    with Recommendations(connection, settings.topic_prefix) as recommendations:
        if asked.similar_to is not None:
            best = recommendations.similar(asked.similar_to, asked.k, asked.seconds, asked.rated)
        else:
            best = recommendations.best(
                asked.user or "",
                asked.k,
                asked.seconds,
                asked.rated,
                private=asked.private,
                neighbours=asked.neighbours,
                for_="now" if asked.now else "next",
            )
    catalogue = None
    if best.items or best.left_out:
        catalogue = _catalogue(connection, settings.topic_prefix)
    return _answer(asked, best, catalogue)


def _answer(asked: Asked, best: RecommendedItems, catalogue: Catalogue | None) -> Answer:
    import msgspec

    rows = zip(best.items, best.scores, best.because, strict=True)
    answer: Answer = {
        "user": asked.user,
        "items": [_row(item, score, cause, catalogue) for item, score, cause in rows],
        "method": best.method,
        "as_of": best.as_of,
        "privacy": best.privacy,
        "ndcg": best.ndcg,
        "ndcg_popular": best.ndcg_popular,
        "guarantee": msgspec.to_builtins(best.guarantee),
        "for": best.for_,
        "seconds": best.seconds,
    }
    if asked.rated is not None:
        answer["left_out"] = best.left_out
    return answer


def _row(
    item: int | str, score: float, cause: int | str | None, catalogue: Catalogue | None
) -> AnswerItem:
    from stream_app.wire import key_of

    shown = None if isnan(score) else score
    row: AnswerItem = {"item": item, "score": shown, "because": cause}
    if catalogue is not None:
        entry = catalogue.entry(key_of(item))
        row |= {"title": entry.title, "genres": list(entry.genres), "year": entry.year}
        row["domain"] = entry.domain or None
        row["because_title"] = None if cause is None else catalogue.title(key_of(cause))
    return row


def _catalogue(connection: Connection, prefix: str) -> Catalogue | None:
    """Return the public catalogue, None where the reader has no right to read it.

    An answer over Kafka carries no titles, and a reader of answers needs no other right.
    """
    from stream_app.cli.catalogue import catalogue_from

    try:
        return catalogue_from(connection, prefix)
    except UserError:
        return None
