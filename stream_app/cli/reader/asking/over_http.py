"""A query over HTTP, to a gateway."""

from __future__ import annotations

import time
from typing import Any

from stream_app.cli.reader.asking.answer import MOST, Answer, Asked
from stream_app.errors import UsageError, UserError

_NOT_FOUND = 404


def answer_over_http(url: str, asked: Asked) -> Answer:
    """Return the answer of the gateway at `url`."""
    from stream_app.wire import key_of

    if not url.startswith(("http://", "https://")):
        raise UsageError(f"--url {url}: give an address such as http://127.0.0.1:8480")
    started = time.monotonic()
    answer = _answer(url, asked)
    answer["seconds"] = time.monotonic() - started
    if asked.option and "guarantee" not in answer:
        raise _earlier_release(url, asked)  # it has passed over the option
    rated = asked.rated
    unrated = [row for row in answer["items"] if key_of(row["item"]) not in (rated or ())]
    if rated is not None:
        answer["left_out"] = len(answer["items"]) - len(unrated)
    answer["items"] = unrated[: asked.k]
    return answer


def _answer(url: str, asked: Asked) -> Answer:
    from http.client import HTTPException
    from urllib.error import HTTPError

    import msgspec

    from stream_app.operations.workers import page

    found: Any = None
    try:
        found = msgspec.json.decode(page(url, _path(asked), None, asked.seconds), type=Answer)
    except (OSError, HTTPException, ValueError) as error:
        if isinstance(error, HTTPError) and error.code == _NOT_FOUND and asked.option:
            raise _earlier_release(url, asked) from None
        # No listener, another protocol, an invalid address or an answer of another form.
        raise UserError(
            f"no gateway answered at {url}: start one (murmurec gateway), or ask over Kafka "
            "(without --http)"
        ) from None
    answer: Answer = found
    return answer


def _path(asked: Asked) -> str:
    from urllib.parse import quote

    # A longer private list would be drawn with more noise.
    k = asked.k if asked.rated is None or asked.private is not None else MOST
    if asked.similar_to is not None:
        return f"/similar?item={quote(str(asked.similar_to), safe='')}&k={k}"
    options = "" if asked.private is None else f"private={asked.private}&"
    options += "neighbours=1&" * asked.neighbours
    options += "for=now&" * asked.now
    return f"/recommendations/{asked.user}?{options}k={k}"


def _earlier_release(url: str, asked: Asked) -> UserError:
    return UserError(
        f"{asked.option}: {url} is of an earlier release, which does not know it; give the address "
        "of a gateway (murmurec gateway)"
    )
