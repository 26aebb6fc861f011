"""What is known of a user, deletion and export; and what an operator looks at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from aiohttp import web

from producers.edge.http.contract import JSON
from producers.edge.http.contract.edge_bodies import Accounts, Status
from producers.edge.http.contract.edge_endpoints import BY_NAME
from producers.edge.http.contract.given import Refused, parameters
from producers.edge.http.site import EDGE
from producers.edge.reporting.users import UnknownUser
from stream_app import __version__


def reply(value: Any, **headers: str) -> web.Response:
    """Return a value as JSON."""
    named = {name.replace("_", "-"): text for name, text in headers.items()}
    body = msgspec.json.encode(value, enc_hook=str)
    return web.Response(body=body, content_type=JSON, headers=named)


async def _of_user(request: web.Request, name: str, call: Callable[[str], Any]) -> Any:
    given = parameters(request, BY_NAME[name])
    try:
        return await request.app[EDGE].run(call, given["user"])
    except UnknownUser:
        raise Refused(404, "not_found", "this site holds nothing of such a user") from None


async def user(request: web.Request) -> web.Response:
    """Answer with what is known of a user and what left the site."""
    return reply(await _of_user(request, "user", request.app[EDGE].site.users.show))


async def delete_user(request: web.Request) -> web.Response:
    """Delete a user and answer with the receipt."""
    return reply(await _of_user(request, "deleteUser", request.app[EDGE].site.users.delete))


async def export_user(request: web.Request) -> web.Response:
    """Answer with everything of a user."""
    found = await _of_user(request, "exportUser", request.app[EDGE].site.users.export)
    return reply(found, Content_Disposition='attachment; filename="user.json"')


async def accounts(request: web.Request) -> web.Response:
    """Answer with the newest accounts."""
    edge, given = request.app[EDGE], parameters(request, BY_NAME["accounts"])
    found = await edge.run(edge.site.users.accounts, given.get("n", 10))
    return reply(Accounts(msgspec.to_builtins(list(found), enc_hook=str)))


async def quality(request: web.Request) -> web.Response:
    """Answer with what the lists bring, by model."""
    edge = request.app[EDGE]
    parameters(request, BY_NAME["quality"])
    return reply(await edge.run(edge.site.quality))


async def status(request: web.Request) -> web.Response:
    """Answer with counts, terms, and what leaves."""
    edge = request.app[EDGE]
    parameters(request, BY_NAME["status"])
    found = dict(await edge.run(edge.site.status))
    return reply(
        Status(
            accounts=found.pop("accounts"),
            waiting=edge.site.intake.waiting,
            terms=found.pop("terms"),
            lists={"problem": edge.site.problem()},
            reporting=found,
            version=__version__,
        )
    )


VIEWS = {
    "user": user,
    "deleteUser": delete_user,
    "exportUser": export_user,
    "accounts": accounts,
    "quality": quality,
    "status": status,
}
