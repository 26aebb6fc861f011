"""A client of a site's edge, for the site's own programs: it knows user ids in clear.

    edge = murmurec.Edge("http://127.0.0.1:8490")
    edge.events({"user": "cust-44", "item": "SKU-2571", "type": "purchase"})
    edge.recommend("cust-44", n=5, category="Shoes")["items"]

It needs the standard library alone. Ids are sent in the query: no client or proxy changes `..`
there. Each event gets a key, unless it has one, and is sent again
with it after 503 or a lost connection: it counts once.
"""

from __future__ import annotations

import http.client
import json
import secrets
import time
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

from stream_app.errors import UserError

_MOST_WAIT_SECONDS = 10.0
_WAIT_SECONDS = 1.0


class Edge:
    """An edge at a URL. Every method returns the JSON value of the answer.

    Raises `EdgeRefused` for a refusal and UserError where the edge does not answer. One thread at a
    time uses a client.
    """

    def __init__(
        self, url: str, token: str | None = None, *, retries: int = 5, seconds: float = 30.0
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("url: give the address of an edge, such as http://127.0.0.1:8490")
        secured = parts.scheme == "https"
        kind = http.client.HTTPSConnection if secured else http.client.HTTPConnection
        self._connection = kind(parts.hostname, parts.port, timeout=seconds)
        self._base, self._retries = parts.path.rstrip("/"), retries
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def events(self, events: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> Any:
        """Send one event or several; they are durable on return."""
        rows = [events] if isinstance(events, Mapping) else list(events)
        keyed = [row if row.get("key") else {**row, "key": secrets.token_hex(16)} for row in rows]
        return self._ask("POST", "/events", body=keyed)

    def recommend(self, user: str | int, **wish: Any) -> Any:
        """Return the list of a user; `wish`: the parameters of GET /recommendations/{user}, `for_`
        for `for`."""
        return self._ask("GET", "/recommendations", {"user": user, **wish})

    def recommend_session(self, items: Iterable[str | int], **wish: Any) -> Any:
        """Return the list of a visitor with these items, which are kept nowhere."""
        given = {name.rstrip("_"): value for name, value in wish.items()}
        return self._ask("POST", "/recommendations", body={**given, "items": list(items)})

    def similar(self, item: str | int, **wish: Any) -> Any:
        """Return items near to one."""
        return self._ask("GET", "/similar", {"item": item, **wish})

    def put_items(self, items: Iterable[Mapping[str, Any]]) -> Any:
        """Write items: each has `item` or `item_id`, and what is known of it."""
        return self._ask("POST", "/items", body=list(items))

    def user(self, user: str | int) -> Any:
        """Return what is known of a user and what left the site; None where there is none."""
        return self._of_user("GET", "/users", user)

    def export_user(self, user: str | int) -> Any:
        """Return everything of a user, to take along; None where there is none."""
        return self._of_user("GET", "/export", user)

    def delete_user(self, user: str | int) -> Any:
        """Delete a user and return the receipt; None where there is none."""
        return self._of_user("DELETE", "/users", user)

    def accounts(self, n: int = 10) -> Any:
        """Return the newest accounts, and what each has spent."""
        return self._ask("GET", "/accounts", {"n": n})

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __enter__(self) -> Edge:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _of_user(self, method: str, path: str, user: str | int) -> Any:
        try:
            return self._ask(method, path, {"user": user})
        except EdgeRefused as refusal:
            if refusal.status == 404:
                return None
            raise

    def _ask(
        self, method: str, path: str, query: Mapping[str, Any] | None = None, body: Any = None
    ) -> Any:
        given = {name.rstrip("_"): each for name, each in (query or {}).items() if each is not None}
        target = self._base + path + ("?" + urlencode(given, doseq=True) if given else "")
        headers, sent = dict(self._headers), None
        if body is not None:
            headers["Content-Type"], sent = "application/json", json.dumps(body).encode()
        for left in range(self._retries, -1, -1):
            try:
                self._connection.request(method, target, sent, headers)
                reply = self._connection.getresponse()
                text = reply.read()
            except (OSError, http.client.HTTPException) as error:
                self._connection.close()
                if not left:
                    place = f"{self._connection.host}:{self._connection.port}"
                    raise UserError(f"the edge at {place} does not answer ({error})") from None
                continue
            if reply.status != 503 or not left:
                return _value(reply.status, text)
            wait = reply.headers.get("Retry-After", "")
            time.sleep(min(int(wait), _MOST_WAIT_SECONDS) if wait.isdecimal() else _WAIT_SECONDS)
        raise AssertionError("unreachable: the last try returns or raises")


class EdgeRefused(UserError):
    """The edge refuses a request: `status` and `reason` as it gave them, and its sentence."""

    def __init__(self, status: int, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.status, self.reason = status, reason


def _value(status: int, text: bytes) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        value = {}
    if status < 400:
        return value
    sentence = value.get("error") or f"the edge answers with status {status}"
    if rows := value.get("refused"):
        sentence += f": row {rows[0]['row']}: {rows[0]['error']}"
    raise EdgeRefused(status, value.get("reason", ""), sentence)
