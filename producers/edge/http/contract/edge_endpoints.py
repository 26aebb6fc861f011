"""Every endpoint of an edge, as data: what it takes, what it answers, how it refuses.

The routes, the checks of parameters and bodies, and the OpenAPI document are made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from producers.edge.http.contract import CSV, HTML, JSON, NDJSON, TEXT, edge_bodies
from producers.pseudonyms import MAX_USER_BYTES
from stream_app.wire.limits import LIST_LENGTH, MAX_ITEM_BYTES

MAX_USERS = 100  # of one request
MAX_FILTER = 2000  # characters
EVENT_BYTES, ITEM_BYTES, FILE_BYTES = 4 << 20, 64 << 10, 32 << 20

REASONS: Mapping[str, str] = {
    "request": "the request is not understood",
    "query": "a parameter is unknown, given twice or out of range",
    "filter": "the filter is none",
    "id": "an id is empty, too long or not UTF-8",
    "body": "the body is not what this endpoint takes",
    "too_large": "the body is too large",
    "content_type": "this content type or encoding is not taken here",
    "rows": "not one row was taken",
    "token": "send the header Authorization: Bearer with the value of MURMUREC_EDGE_TOKEN",
    "not_found": "there is none",
    "method": "this method is not allowed here",
    "host": "this name is not served here",
    "origin": "pages of other sites may not use an edge",
    "busy": "too much waits to be written: send the same again later",
    "store": "the store cannot be read or written: send the same again later",
    "refused": "this cannot be done now",
    "defect": "the edge failed; its log says where",
}


@dataclass(frozen=True)
class Parameter:
    """A parameter of the path or of the query; `many`: may be given several times; `required`: a
    request without it is refused."""

    name: str
    place: str
    schema: Mapping[str, Any]
    text: str
    example: str
    many: bool = False
    required: bool = False


@dataclass(frozen=True)
class Endpoint:
    """An endpoint. `takes`: content types of the body, `most_bytes` of it; `asks`: its type where
    that is one JSON value; `open`: asks for no token. `by_query`: the same with the ids of its path
    in the query, because clients change a path such as /users/.. before they send it."""

    method: str
    path: str
    name: str
    tag: str
    summary: str
    body: Any = None
    text: str = ""
    status: int = 200
    content_type: str = JSON
    parameters: tuple[Parameter, ...] = ()
    takes: tuple[str, ...] = ()
    asks: Any = None
    example: str = ""
    most_bytes: int = 0
    refusals: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    other: Mapping[int, Any] = field(default_factory=dict)
    open: bool = False

    @cached_property
    def by_query(self) -> Endpoint | None:
        """None where the path holds no id; else its last word is the path that is left."""
        given = tuple(
            replace(each, place="query", required=True) if each.required else each
            for each in self.parameters
        )
        if given == self.parameters or self.open:
            return None
        words = [word for word in self.path.split("/") if word and "{" not in word]
        text = f"As {self.path}, with any id in the query. {self.text}".strip()
        return replace(
            self, path=f"/{words[-1]}", name=f"{self.name}ByQuery", parameters=given, text=text
        )


def _id(name: str, most: int, example: str) -> Parameter:
    schema = {"type": "string", "minLength": 1}
    text = f"any text of at most {most} bytes in UTF-8, percent-encoded (a / as %2F)"
    return Parameter(name, "path", schema, text, example, required=True)


_USER, _ITEM = _id("user", MAX_USER_BYTES, "cust-44"), _id("item", MAX_ITEM_BYTES, "SKU-2571")
_LENGTH = {"type": "integer", "minimum": 1, "maximum": LIST_LENGTH, "default": 10}
_N = Parameter("n", "query", _LENGTH, "how many items", "10")
_TEXT = {"type": "string", "minLength": 1, "maxLength": 500}
_CATEGORY = Parameter("category", "query", _TEXT, "one of these alone", "Shoes", True)
_NOT_CATEGORY = Parameter("not_category", "query", _TEXT, "none of these", "Socks", True)
_FILTER = Parameter(
    *("filter", "query", {"type": "string", "maxLength": MAX_FILTER}),
    *("a condition on attributes of items", 'price <= 50 and not label = "sale"'),
)
_EXCLUDE = Parameter("exclude", "query", _TEXT, "an item that is not wanted", "SKU-7", True)
_FOR = Parameter(
    *("for", "query", {"type": "string", "enum": ["next", "now"]}),
    *("what is liked at the next visit, or now; without it the newest event decides", "next"),
)
_DIVERSITY = Parameter(
    *("diversity", "query", {"type": "number", "minimum": 0, "maximum": 1}),
    *("share of difference in the order (maximal marginal relevance): 0 none, 1 all", "0.3"),
)
_MOST = Parameter(
    *("most_per_category", "query", {"type": "integer", "minimum": 1, "maximum": LIST_LENGTH}),
    *("at most so many items of a category", "3"),
)
_MODEL = Parameter(
    *("model", "query", {"type": "string", "minLength": 1, "maxLength": 32}),
    *("the ranking, of those that the site compares; else that of the user's arm", "local"),
)
_NARROW = (_N, _CATEGORY, _NOT_CATEGORY, _FILTER, _EXCLUDE)
_WISH = (*_NARROW, _FOR, _DIVERSITY, _MOST, _MODEL)
_ASKED = {400: ("query", "filter"), 503: ("store",)}
_ONE = {**_ASKED, 400: ("id", "query", "filter")}
_OF_ID = {400: ("id", "query"), 404: ("not_found",), 503: ("store",)}
_SENT = {413: ("too_large",), 415: ("content_type",), 503: ("busy", "store")}

ENDPOINTS: tuple[Endpoint, ...] = (
    Endpoint(
        *("POST", "/events", "events", "events", "Send what users did", edge_bodies.Accepted),
        "One event, an array of events, or one event a line. 202: they are durable. Send the same "
        "again after 503 or no answer: an event with the same key, or with the same user, item, "
        "type and time, counts once.",
        status=202,
        takes=(JSON, NDJSON),
        example='{"user":"cust-44","item":"SKU-2571","type":"purchase"}',
        most_bytes=EVENT_BYTES,
        refusals=_SENT | {400: ("rows",)},
        other={400: edge_bodies.Accepted},
    ),
    Endpoint(
        *("GET", "/recommendations/{user}", "recommendations", "lists", "A user's list"),
        body=edge_bodies.ItemList,
        parameters=(_USER, *_WISH),
        refusals=_ONE,
    ),
    Endpoint(
        *("POST", "/recommendations", "lists", "lists", "Lists of users, or of a session"),
        body=edge_bodies.ItemList | edge_bodies.Lists,
        text=f"`users`: up to {MAX_USERS}. `items`: what a visitor looked at, kept nowhere.",
        takes=(JSON,),
        asks=edge_bodies.Asked,
        example='{"items":["SKU-2571"],"n":5}',
        most_bytes=ITEM_BYTES,
        refusals=_SENT | {400: ("body", "id", "query", "filter")},
    ),
    Endpoint(
        *("GET", "/similar/{item}", "similar", "lists", "Items near to one", edge_bodies.ItemList),
        parameters=(_ITEM, *_NARROW, _MOST, _DIVERSITY),
        refusals=_ONE,
    ),
    Endpoint(
        *("GET", "/popular", "popular", "lists", "What many liked lately", edge_bodies.ItemList),
        parameters=(*_NARROW, _MOST),
        refusals=_ASKED,
    ),
    Endpoint(
        *("GET", "/latest", "latest", "lists", "The newest items", edge_bodies.ItemList),
        parameters=(*_NARROW, _MOST),
        refusals=_ASKED,
    ),
    Endpoint(
        *("GET", "/because/{user}/{item}", "because", "lists", "Why a user would get an item"),
        body=edge_bodies.Because,
        parameters=(_USER, _ITEM),
        refusals=_OF_ID,
    ),
    Endpoint(
        *("PUT", "/items/{item}", "putItem", "catalogue", "Write an item", edge_bodies.Stored),
        parameters=(_ITEM,),
        takes=(JSON,),
        example='{"title":"Trail shoe","categories":["Shoes"],"price":89.9}',
        most_bytes=ITEM_BYTES,
        refusals=_SENT | {400: ("id", "rows")},
        other={400: edge_bodies.Stored},
    ),
    Endpoint(
        *("GET", "/items/{item}", "item", "catalogue", "An item", edge_bodies.JsonObject),
        parameters=(_ITEM,),
        refusals=_OF_ID,
    ),
    Endpoint(
        *(
            "DELETE",
            "/items/{item}",
            "removeItem",
            "catalogue",
            "Remove an item",
            edge_bodies.Removed,
        ),
        "No list has it from now on. What users did with it stays.",
        parameters=(_ITEM,),
        refusals=_OF_ID,
    ),
    Endpoint(
        *("POST", "/items", "putItems", "catalogue", "Write items of a file", edge_bodies.Stored),
        "CSV with a header, one item a line, or an array. The answer says what was recognised.",
        takes=(CSV, NDJSON, JSON),
        example="item_id,title,categories,price\nSKU-2571,Trail shoe,Shoes,89.9\n",
        most_bytes=FILE_BYTES,
        refusals=_SENT | {400: ("rows",)},
        other={400: edge_bodies.Stored},
    ),
    Endpoint(
        *("GET", "/users/{user}", "user", "users", "What is known of a user, and what left"),
        body=edge_bodies.JsonObject,
        parameters=(_USER,),
        refusals=_OF_ID,
    ),
    Endpoint(
        *(
            "DELETE",
            "/users/{user}",
            "deleteUser",
            "users",
            "Delete a user",
            edge_bodies.JsonObject,
        ),
        "The clean history is gone with the answer, which is the receipt; the recommender is asked "
        "to forget the pseudonym.",
        parameters=(_USER,),
        refusals=_OF_ID,
    ),
    Endpoint(
        *("GET", "/users/{user}/export", "exportUser", "users", "Everything of a user, to take"),
        body=edge_bodies.JsonObject,
        parameters=(_USER,),
        refusals=_OF_ID,
    ),
    Endpoint(
        *(
            "GET",
            "/quality",
            "quality",
            "operation",
            "What lists bring, by model",
            edge_bodies.Quality,
        ),
        refusals={503: ("store",)},
    ),
    Endpoint(
        *("GET", "/status", "status", "operation", "Counts, terms, and what leaves"),
        body=edge_bodies.Status,
        refusals={503: ("store",)},
    ),
    Endpoint(
        *("GET", "/accounts", "accounts", "operation", "Accounts, those enrolled last first"),
        body=edge_bodies.Accounts,
        parameters=(Parameter(*("n", "query", _LENGTH, "how many", "10")),),
        refusals={400: ("query",), 503: ("store",)},
    ),
    Endpoint(
        *("GET", "/livez", "livez", "operation", "Whether the process works", edge_bodies.Alive),
        open=True,
    ),
    Endpoint(
        *("GET", "/readyz", "readyz", "operation", "Whether events are taken", edge_bodies.Ready),
        "What `waiting_for` names makes lists better; events are taken and lists made without it.",
        other={503: edge_bodies.Ready},
        open=True,
    ),
    Endpoint(
        *("GET", "/metrics", "metrics", "operation", "Metrics in the text format of Prometheus"),
        text="Counts and seconds; no user and no item.",
        content_type=TEXT,
    ),
    Endpoint("GET", "/", "page", "pages", "The page", content_type=HTML, open=True),
    Endpoint("GET", "/docs", "docs", "pages", "This contract", content_type=HTML, open=True),
    Endpoint(
        *("GET", "/openapi.json", "openapi", "pages", "This contract as OpenAPI 3.1"), open=True
    ),
    Endpoint(
        *("GET", "/web/{name}", "files", "pages", "The files of the page"),
        content_type="text/javascript",
        parameters=(
            Parameter("name", "path", _TEXT, "the name of a file", "edge.js", required=True),
        ),
        refusals={404: ("not_found",)},
        open=True,
    ),
)

BY_NAME: Mapping[str, Endpoint] = {each.name: each for each in ENDPOINTS}

# Refusals that every endpoint may give.
COMMON: Mapping[int, tuple[str, ...]] = {
    400: ("request",),
    401: ("token",),
    403: ("origin",),
    405: ("method",),
    421: ("host",),
    500: ("defect",),
}
