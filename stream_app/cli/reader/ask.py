"""`murmurec ask`: the best items for one user, over Kafka or over HTTP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypedDict

import typer

from stream_app.cli.device.mechanism_options import JournalOption, journal_path
from stream_app.cli.options import (
    BootstrapOption,
    ConfigOption,
    JsonOption,
    KafkaOption,
    PrefixOption,
    connection_from,
    settings_from,
)
from stream_app.cli.output import described, print_json, printable, say
from stream_app.errors import UsageError, UserError

if TYPE_CHECKING:
    from stream_app.kafka.clients import Connection
    from stream_app.serving.catalogue import Catalogue

_MOST = 100  # items in the longest answer
_MIN_SECONDS, _MAX_SECONDS = 0.1, 3600


class AskReplyItem(TypedDict):
    """An item of an answer; `score` is a predicted rating."""

    item: int | str
    score: float
    title: NotRequired[str | None]
    genres: NotRequired[list[str]]
    year: NotRequired[int | None]
    domain: NotRequired[str | None]


class AskReply(TypedDict):
    """An answer of the query view; an answer over Kafka has the same fields.

    `left_out`: number of items of the longest list that are not shown because they were rated.
    `ndcg`: measured nDCG@10 of the lists of `method`, `ndcg_popular` that of popular items.
    """

    user: str
    items: list[AskReplyItem]
    method: str
    as_of: int
    privacy: str
    ndcg: NotRequired[float | None]
    ndcg_popular: NotRequired[float | None]
    seconds: NotRequired[float]
    left_out: NotRequired[int]


def ask(
    user: Annotated[
        str | None,
        typer.Option(metavar="ID", help="The user's own id; the journal gives the pseudonym."),
    ] = None,
    device: Annotated[
        str | None, typer.Option(metavar="HEX", help="The pseudonym, 32 hex characters.")
    ] = None,
    k: Annotated[int, typer.Option("-k", metavar="N", help="Number of items, 1 to 100.")] = 10,
    http: Annotated[bool, typer.Option("--http", help="Query over HTTP instead of Kafka.")] = False,
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="Address of the worker, with --http.")
    ] = None,
    rated: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Leave out the items of this file, item[,rating[,time]] on each line; it stays on "
            "this device.",
        ),
    ] = None,
    journal: JournalOption = None,
    timeout: Annotated[float, typer.Option(metavar="S", help="Seconds to wait.")] = 5.0,
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    prefix: PrefixOption = None,
    kafka: KafkaOption = None,
    as_json: JsonOption = False,
) -> None:
    """Recommend items to a user; items that the server knows to be rated are left out.

    Example: murmurec ask --user alice -k 10
    """
    if not 1 <= k <= _MOST:
        raise UsageError(f"-k {k}: give 1 to 100")
    if not _MIN_SECONDS <= timeout <= _MAX_SECONDS:  # NaN is not, either
        raise UsageError(f"--timeout {timeout:g}: give {_MIN_SECONDS} to {_MAX_SECONDS} seconds")
    if (user is None) == (device is None):
        raise UsageError("give either --user ID or --device HEX")
    settings = settings_from(config, bootstrap, prefix, kafka)
    known = _rated(rated)
    pseudonym = device.lower() if device is not None else _pseudonym(settings, user or "", journal)
    if len(pseudonym) != 32 or set(pseudonym) - set("0123456789abcdef"):
        raise UsageError(f"--device {pseudonym[:40]}: a pseudonym has 32 hex characters")
    if http:
        answer = _over_http(
            url or f"http://{settings.admin_host}:{settings.admin_port}",
            pseudonym,
            k,
            timeout,
            known,
            settings.admin_token,
        )
    else:
        answer = _over_kafka(settings, pseudonym, k, timeout, known)
    if as_json:
        print_json(answer)
    else:
        _show(answer)


def _show(answer: AskReply) -> None:
    """Print the items of an answer and where they come from."""
    for rank, row in enumerate(answer["items"], 1):
        year, domain = row.get("year"), row.get("domain")
        shown = described(row.get("title") or "", row.get("genres", []), year, domain)
        named = printable(f"{row['item']}  {shown}")
        say(f"{rank:4}  {row['score']:.2f}  {named}".rstrip())
    if any(str(row["item"]).startswith("key:") for row in answer["items"]):
        say("an item shown as key: has a word for its id: murmurec items put WORD shows the word")
    if not answer["items"]:
        left_out = answer.get("left_out", 0)
        say(
            f"all {left_out} items of the answer are in the file of --rated"
            if left_out
            else "nothing to recommend yet"
        )
    say(
        f"by {answer['method']}{_measured(answer)}; as of cut {answer['as_of']}, "
        f"privacy {answer['privacy']}, {answer['seconds'] * 1000:.1f} ms; "
        "scores are predicted ratings on 1 .. 5"
    )


def _measured(answer: AskReply) -> str:
    """Return the measured quality of the lists, beside that of popular items."""
    ndcg, popular = answer.get("ndcg"), answer.get("ndcg_popular")
    if ndcg is None or popular is None:
        return ", nDCG@10 not measured yet"
    beside = "" if answer["method"] == "popular" else f" (popular {popular:.2f})"
    return f", nDCG@10 {ndcg:.2f}{beside}".replace(" 0.", " .")


def _rated(file: Path | None) -> frozenset[int] | None:
    """Return the keys of the items in the file of `--rated`, None without one: what is sent and
    read depends on whether it is given, never on what is in it."""
    if file is None:
        return None
    from producers.ranking.rated_file import keys_in

    return keys_in(file)


def _pseudonym(settings: Any, user: str, journal: Path | None) -> str:
    from producers.identities import Identities
    from producers.journal import read_key

    path = journal_path(settings, journal)
    if not path.exists():
        raise UserError(
            f"device journal {path}: does not exist; publish a rating first, "
            "or give --journal or --device"
        )
    try:
        return Identities(read_key(path), signed=settings.signed).pseudonym(user).hex()
    except ValueError as error:
        raise UserError(str(error)) from None


def _over_kafka(
    settings: Any, pseudonym: str, k: int, timeout: float, rated: frozenset[int] | None
) -> AskReply:
    from consumers.recommendations import Recommendations, key_of
    from stream_app.kafka import clients

    connection = connection_from(settings)
    clients.describe_cluster(connection)
    with Recommendations(connection, settings.topic_prefix) as recommendations:
        best = recommendations.best(pseudonym, k, timeout, rated)
    wanted = best.items or best.left_out
    catalogue = _catalogue(connection, settings.topic_prefix) if wanted else None
    rows: list[AskReplyItem] = []
    for item, score in zip(best.items, best.scores, strict=True):
        row: AskReplyItem = {"item": item, "score": score}
        if catalogue is not None:
            entry = catalogue.entry(key_of(item))
            row |= {"title": entry.title, "genres": list(entry.genres), "year": entry.year}
            row["domain"] = entry.domain or None
        rows.append(row)
    answer: AskReply = {
        "user": pseudonym,
        "items": rows,
        "method": best.method,
        "as_of": best.as_of,
        "privacy": best.privacy,
        "ndcg": best.ndcg,
        "ndcg_popular": best.ndcg_popular,
        "seconds": best.seconds,
    }
    if rated is not None:
        answer["left_out"] = best.left_out
    return answer


def _catalogue(connection: Connection, prefix: str) -> Catalogue | None:
    """Return the public catalogue, None where the reader has no right to read it.

    An answer over Kafka carries no titles, and a reader of answers needs no other right.
    """
    from stream_app.cli.catalogue import catalogue_from

    try:
        return catalogue_from(connection, prefix)
    except UserError:
        return None


def _over_http(
    url: str,
    pseudonym: str,
    k: int,
    timeout: float,
    rated: frozenset[int] | None,
    token: str | None,
) -> AskReply:
    import time
    from http.client import HTTPException

    import msgspec

    from consumers.recommendations import key_of
    from stream_app.operations.workers import page

    if not url.startswith(("http://", "https://")):
        raise UsageError(f"--url {url}: give an address such as http://127.0.0.1:8470")
    path = f"/recommendations/{pseudonym}?k={k if rated is None else _MOST}"
    started = time.monotonic()
    try:
        answer = msgspec.json.decode(page(url, path, token, timeout), type=AskReply)
    except (OSError, HTTPException, ValueError):
        # No listener, another protocol, an invalid address or an answer of another form.
        raise UserError(
            f"no query view answered at {url}: is a worker running there "
            "(murmurec worker --admin-port)?"
        ) from None
    answer["seconds"] = time.monotonic() - started
    unrated = [row for row in answer["items"] if key_of(row["item"]) not in (rated or ())]
    if rated is not None:
        answer["left_out"] = len(answer["items"]) - len(unrated)
    answer["items"] = unrated[:k]
    return answer
