"""`murmurec ask`: the best items for one user, or items near to one, over Kafka or a gateway."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stream_app.cli.commands import option
from stream_app.cli.device import mechanism_options
from stream_app.cli.options import Cluster, For, JsonOption
from stream_app.cli.output import print_json, refusing
from stream_app.cli.reader import query_answers
from stream_app.errors import UsageError, UserError

_MIN_SECONDS, _MAX_SECONDS = 0.1, 3600


def ask(
    cluster: Cluster,
    user: str | None = option(
        None,
        "The user's own id; the journal gives the pseudonym.",
        "ID",
        callback=mechanism_options.person,
    ),
    device: str | None = option(None, "The pseudonym, 32 hex characters.", "HEX"),
    similar_to: str | None = option(None, "Items near to this one, for no user.", "ITEM"),
    for_: For = option(
        For.next, "What is liked at the next visit, or now, in this one.", None, "--for"
    ),
    k: int = option(10, "Number of items, 1 to 100.", "N", "-k"),
    http: bool = option(False, "Ask a gateway, not Kafka."),
    url: str | None = option(None, "Address of the gateway, with --http.", "URL"),
    rated: Path | None = option(
        None,
        "Leave out the items of this file, item[,rating[,time]] on each line; it stays on "
        "this device.",
        "FILE",
    ),
    journal: mechanism_options.JournalOption = None,
    timeout: float = option(5.0, "Seconds to wait.", "S"),
    as_json: JsonOption = False,
) -> None:
    """Recommend items to a user; items that the server knows to be rated are left out.

    Example: murmurec ask --user alice -k 10, murmurec ask --similar-to 1193
    """
    if not 1 <= k <= query_answers.MOST:
        raise UsageError(f"-k {k}: give 1 to 100")
    if not _MIN_SECONDS <= timeout <= _MAX_SECONDS:  # NaN is not, either
        raise UsageError(f"--timeout {timeout:g}: give {_MIN_SECONDS} to {_MAX_SECONDS} seconds")
    now = for_ is For.now
    if similar_to is not None and now:
        raise UsageError("give at most one of --similar-to and --for now")
    if similar_to is not None and (user is not None or device is not None):
        raise UsageError("--similar-to asks for no user: leave out --user and --device")
    if similar_to is None and (user is None) == (device is None):
        raise UsageError("give either --user ID or --device HEX")
    near = None if similar_to is None else _item(similar_to)
    settings = cluster.settings()
    known = _rated(rated)
    pseudonym = None
    if near is None:
        pseudonym = _pseudonym(settings, user, device, journal)
    asked = query_answers.Asked(pseudonym, k, timeout, known, near, now)
    if http:
        address = url or f"http://{settings.gateway_host}:{settings.gateway_port}"
        answer = query_answers.answer_over_http(address, asked)
    else:
        answer = query_answers.answer_over_kafka(settings, asked)
    if as_json:
        print_json(answer)
    else:
        query_answers.show(answer)


def _item(text: str) -> int | str:
    from stream_app.wire import key, parse_item

    item = parse_item(text)
    with refusing(UsageError, "--similar-to: {}".format):
        key(item)
    return item


def _rated(file: Path | None) -> frozenset[int] | None:
    """Return the keys of the items in the file of `--rated`, None without one: what is sent and
    read depends on whether it is given, never on what is in it."""
    if file is None:
        return None
    from producers.ranking.rated_file import keys_in

    return keys_in(file)


def _pseudonym(settings: Any, user: str | None, device: str | None, journal: Path | None) -> str:
    """Return the pseudonym that was given, or that the journal gives for the user's own id."""
    if device is None:
        return _pseudonym_of(settings, user or "", journal)
    if len(device) != 32 or set(device.lower()) - set("0123456789abcdef"):
        raise UsageError(f"--device {device[:40]}: a pseudonym has 32 hex characters")
    return device.lower()


def _pseudonym_of(settings: Any, user: str, journal: Path | None) -> str:
    mechanism_options.check_user(user)
    path = mechanism_options.journal_path(settings, journal)
    if not path.exists():
        raise UserError(
            f"device journal {path}: does not exist; publish a rating first, "
            "or give --journal or --device"
        )
    return mechanism_options.pseudonym_in(path, user, settings).hex()
