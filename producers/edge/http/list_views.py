"""The lists of an edge: of a user, of several, of a session, near to an item, popular, latest."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from aiohttp import web

from producers.edge.catalogue.filters import parse
from producers.edge.http.contract import JSON
from producers.edge.http.contract.edge_bodies import Asked, ItemList, Lists
from producers.edge.http.contract.edge_endpoints import BY_NAME, MAX_USERS
from producers.edge.http.contract.given import (
    Refused,
    checked,
    item_of,
    parameters,
    user_of,
)
from producers.edge.http.site import EDGE, Edge
from producers.edge.lists.wishes import EdgeList, Wish

_MANY = 500  # items of a session, or excluded


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _condition(given: dict[str, Any]) -> Any:
    """Return the filter of a request; None where every item may be in the list."""
    parts = []
    if kinds := given.get("category"):
        parts.append(f"category in ({', '.join(map(_quoted, kinds))})")
    if away := given.get("not_category"):
        parts.append(f"not category in ({', '.join(map(_quoted, away))})")
    if given.get("filter"):
        parts.append(f"({given['filter']})")
    if not parts:
        return None
    try:
        parse(given.get("filter") or "available")  # whole by itself: it closes no bracket of ours
        return parse(" and ".join(parts))
    except ValueError as error:
        raise Refused(400, "filter", str(error)) from None


def _wish(edge: Edge, given: dict[str, Any]) -> Wish:
    model, models = given.get("model"), edge.site.terms.models
    if model is not None and model not in models:
        raise Refused(400, "query", f"model: give {' or '.join(models)}")
    return Wish(
        n=given.get("n", 10),
        filter=_condition(given),
        exclude=tuple(map(item_of, given.get("exclude", ()))),
        visit=given.get("for"),
        most_per_category=given.get("most_per_category"),
        diversity=given.get("diversity"),
        model=model,
    )


def _shown(made: EdgeList, user: str | None = None) -> ItemList:
    what = made.ranked_by, made.model, made.method, made.rated, made.known, made.as_of, made.reason
    return ItemList(made.id, user, made.items, *what)


async def _answered(
    edge: Edge, kind: str, make: Callable[..., EdgeList], *given: Any, user: str | None = None
) -> web.Response:
    began = time.monotonic()
    # A filter may look at every item of the catalogue, so it runs in the pool.
    at_once = edge.at_once and given[-1].filter is None
    made = make(*given) if at_once else await edge.run(make, *given)
    edge.site.shown(made)
    edge.metrics.listed(kind, time.monotonic() - began)
    return _reply(_shown(made, user))


def _reply(value: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type=JSON)


async def recommendations(request: web.Request) -> web.Response:
    """Answer with the list of a user."""
    edge, given = request.app[EDGE], parameters(request, BY_NAME["recommendations"])
    user, wish = given["user"], _wish(edge, given)
    return await _answered(edge, "user", edge.site.lists.for_user, user, wish, user=user)


async def lists(request: web.Request) -> web.Response:
    """Answer with lists of several users, or with that of a session."""
    edge, endpoint = request.app[EDGE], BY_NAME["lists"]
    parameters(request, endpoint)
    async with edge.bodies.read(request, endpoint) as (body, _):
        asked = _asked(body)
    given = {
        name: value
        for name, value in {**msgspec.structs.asdict(asked), "for": asked.for_}.items()
        if value is not None
    }
    for parameter in BY_NAME["recommendations"].parameters:
        values = given.get(parameter.name)
        if values is not None and parameter.name != "exclude":
            for value in values if parameter.many else [values]:
                checked(parameter, value)
    wish = _wish(edge, given)
    if asked.items is not None:
        items = list(dict.fromkeys(map(item_of, asked.items)))
        return await _answered(edge, "session", edge.site.lists.for_session, items, wish)
    users = list(map(user_of, asked.users or ()))
    began = time.monotonic()
    made = await edge.run(_of_users, edge, users, wish)
    edge.metrics.listed("users", time.monotonic() - began)
    return _reply(Lists(made))


def _of_users(edge: Edge, users: Sequence[str], wish: Wish) -> list[ItemList]:
    found = []
    for user in users:
        made = edge.site.lists.for_user(user, wish)
        edge.site.shown(made)
        found.append(_shown(made, user))
    return found


def _asked(body: bytes) -> Asked:
    try:
        asked = msgspec.json.decode(body, type=Asked)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Refused(
            400, "body", "the body is no JSON object of the fields of this endpoint (/docs)"
        ) from None
    if (asked.users is None) == (asked.items is None):
        raise Refused(400, "body", "give users, or the items of a session, and not both")
    if asked.users is not None and not 1 <= len(asked.users) <= MAX_USERS:
        raise Refused(400, "body", f"users: give 1 to {MAX_USERS}")
    if len(asked.items or ()) > _MANY or len(asked.exclude) > _MANY:
        raise Refused(400, "body", f"items, exclude: give at most {_MANY}")
    return asked


async def similar(request: web.Request) -> web.Response:
    """Answer with items near to one."""
    edge, given = request.app[EDGE], parameters(request, BY_NAME["similar"])
    wish = _wish(edge, given)
    return await _answered(edge, "similar", edge.site.lists.similar, given["item"], wish)


async def popular(request: web.Request) -> web.Response:
    """Answer with what many liked lately."""
    edge, given = request.app[EDGE], parameters(request, BY_NAME["popular"])
    return await _answered(edge, "popular", edge.site.lists.popular, _wish(edge, given))


async def latest(request: web.Request) -> web.Response:
    """Answer with the newest items."""
    edge, given = request.app[EDGE], parameters(request, BY_NAME["latest"])
    return await _answered(edge, "latest", edge.site.lists.latest, _wish(edge, given))


async def because(request: web.Request) -> web.Response:
    """Answer with what speaks for an item."""
    edge, given = request.app[EDGE], parameters(request, BY_NAME["because"])
    began = time.monotonic()
    found = await edge.run(edge.site.lists.because, given["user"], given["item"])
    edge.metrics.listed("because", time.monotonic() - began)
    return _reply(found)


VIEWS = {
    "recommendations": recommendations,
    "lists": lists,
    "similar": similar,
    "popular": popular,
    "latest": latest,
    "because": because,
}
