"""Every endpoint of a gateway, as data: what it takes, its answers, what it shows of a client.

The routes of the application, the parameters that it takes and the documents are made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from stream_app.gateway.contract import bodies
from stream_app.gateway.contract.rejection_reasons import OF_EVENTS, HttpReason
from stream_app.gateway.contract.topic_messages import BYTES, DEVICE, JSON
from stream_app.wire import LIST_LENGTH, Reason

TEXT, HTML = "text/plain", "text/html"


@dataclass(frozen=True)
class Parameter:
    """A parameter of the path, of the query or in a header."""

    name: str
    place: str
    schema: Mapping[str, Any]
    text: str
    example: str
    required: bool = False


@dataclass(frozen=True)
class Endpoint:
    """An endpoint. `sees`: what the server learns from a request. `refusals`: status -> reasons;
    `later`: 204 before there is a first version; `ask` is a request that works on any gateway, to
    which `{}` parameters are filled in."""

    method: str
    path: str
    name: str
    tag: str
    summary: str
    sees: str
    status: int = 200
    content_type: str = JSON
    body: type[msgspec.Struct] | None = None
    text: str = ""
    parameters: tuple[Parameter, ...] = ()
    refusals: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    cached: bool = False
    later: bool = False
    takes_event: bool = False
    takes: str = BYTES
    other: Mapping[int, type[msgspec.Struct]] = field(default_factory=dict)

    @property
    def query(self) -> tuple[str, ...]:
        """The names of its query parameters."""
        return tuple(each.name for each in self.parameters if each.place == "query")

    @property
    def is_the_same_for_all(self) -> bool:
        """Whether a query parameter is refused: one might show something of a user."""
        return self.refusals.get(400) == (HttpReason.QUERY,) and not self.parameters

    @property
    def ask(self) -> str:
        """The path with the examples of its parameters."""
        path = self.path
        for each in self.parameters:
            if each.place == "path":
                path = path.replace(f"{{{each.name}}}", each.example)
        query = [f"{each.name}={each.example}" for each in self.parameters if each.place == "query"]
        return path + ("?" + "&".join(query) if query else "")


_USER = Parameter(
    *("user", "path", {"type": "string", "pattern": "^[0-9a-f]{32}$"}),
    *("the pseudonym", DEVICE.hex(), True),
)
_K = Parameter(
    "k",
    "query",
    {"type": "integer", "minimum": 1, "maximum": LIST_LENGTH, "default": 10},
    *("how many items", "10"),
)
_VISIT = Parameter(
    *("for", "query", {"type": "string", "enum": ["next", "now"], "default": "next"}),
    *("what is liked at the next visit, or now, in this one", "next"),
)
_ITEM = Parameter("item", "query", {"type": "string", "minLength": 1}, "an id", "1193", True)
_FILE = Parameter("name", "path", {"type": "string"}, "path of the file", "device.js", True)
_SCHEMA = Parameter("name", "path", {"type": "string"}, "name of the schema", "event", True)

_ASKED = {
    400: (HttpReason.QUERY,),
    409: (HttpReason.REFUSED,),
    429: (HttpReason.RATE,),
    503: (HttpReason.BUSY, HttpReason.NO_ANSWER),
}
_WITHOUT_PARAMETERS = {400: (HttpReason.QUERY,)}
_NO_FILE = {404: (HttpReason.NOT_FOUND,)}
_NOTHING_OF_YOU = "That a client watches; the answer is the same for every client."
_SAME_FOR_ALL = "Nothing of a user: the answer is the same for every client."
LATER = "nothing was published yet: ask again later"
_CONTENTS = "Nothing of a user; which document was opened."
_CACHED: dict[str, Any] = {"refusals": _WITHOUT_PARAMETERS, "cached": True}
_NO_CAMPAIGNS = {
    "refusals": _WITHOUT_PARAMETERS | {404: (HttpReason.NO_CAMPAIGNS,), 409: (HttpReason.SIGNED,)}
}

REPORTS = Endpoint(
    *("POST", "/reports", "report", "take part", "Send one event"),
    "Device, items and day of the event, and its reports as the mechanism released them. Never a "
    "rating: the noise is drawn before, on the device.",
    status=202,
    body=bodies.Accepted,
    text="The body is the very value of a record of the rating topic: the gateway decodes it as "
    "the workers do and writes its bytes as they came. 202 says that Kafka has confirmed it. Keep "
    "the bytes until then, and after 429, 503 or no reply send the same bytes again: device and "
    "seq make that safe, an event counts once. Send each rating once; a second noised copy of it "
    "would cost more privacy.",
    refusals={
        400: tuple(reason for reason in OF_EVENTS if reason is not Reason.TOO_LARGE),
        409: (HttpReason.SEQ_REUSED,),
        413: (Reason.TOO_LARGE,),
        415: (HttpReason.CONTENT_TYPE,),
        429: (HttpReason.RATE,),
        503: (HttpReason.KAFKA,),
    },
    takes_event=True,
)

ENDPOINTS: tuple[Endpoint, ...] = (
    REPORTS,
    Endpoint(
        *("GET", "/mechanisms", "mechanisms", "take part"),
        *("What a device may use, with the integer tables to draw from", _SAME_FOR_ALL),
        body=bodies.Mechanisms,
        text="A device need not trust these tables: every count is at least 1, each row adds up to "
        "2^64, and in each column the largest is at most e^epsilon times the smallest.",
        **_CACHED,
    ),
    Endpoint(
        *("GET", "/campaign", "campaign", "take part", "The newest campaign and its stage"),
        _SAME_FOR_ALL,
        body=bodies.CampaignStatus,
        later=True,
        **_CACHED | _NO_CAMPAIGNS,
    ),
    Endpoint(
        *("GET", "/campaign/side", "campaignSide", "take part"),
        *("The public item side of the newest campaign, from its noisy sums", _SAME_FOR_ALL),
        content_type=BYTES,
        later=True,
        **_CACHED | _NO_CAMPAIGNS,
    ),
    Endpoint(
        *("POST", "/contributions", "contribute", "take part", "Send one contribution to a stage"),
        "Which pseudonym takes part in which stage, when and from which address; the boxes are "
        "sealed to the parties.",
        status=202,
        body=bodies.Accepted,
        text="The body is the value of a record of the topic of contributions. Keep it until 202, "
        "and send the same bytes again as to /reports; the first contribution of a device counts.",
        refusals={
            400: (HttpReason.CONTRIBUTION,),
            404: (HttpReason.NO_CAMPAIGNS,),
            409: (HttpReason.STAGE, HttpReason.CONTRIBUTED, HttpReason.SIGNED),
            413: (HttpReason.CONTRIBUTION,),
            415: (HttpReason.CONTENT_TYPE,),
            429: (HttpReason.RATE,),
            503: (HttpReason.KAFKA,),
        },
    ),
    Endpoint(
        *("GET", "/catalogue", "catalogue", "take part", "The public catalogue"),
        _SAME_FOR_ALL + " It has no search, which would show an interest.",
        body=bodies.Catalogue,
        **_CACHED,
    ),
    Endpoint(
        *("GET", "/item-links", "itemLinks", "lists"),
        *("The public item side, from which a device ranks by itself", _SAME_FOR_ALL),
        content_type=BYTES,
        text="The layout is that of the item side on its topic (keys, popularity, predicted "
        "ratings, links, what follows, factors). The ETag is the digest of the version, "
        "with -gzip after it where it is sent so.",
        later=True,
        **_CACHED | {"refusals": _WITHOUT_PARAMETERS | {404: (HttpReason.FOREIGN,)}},
    ),
    Endpoint(
        *("GET", "/recommendations/{user}", "recommendations", "lists"),
        "The list of a user, by the workers",
        "Which pseudonym asks, when and from which address. A list that the device ranks by itself "
        "(/item-links) shows none of it.",
        body=bodies.ItemList,
        parameters=(_USER, _K, _VISIT),
        refusals=_ASKED,
    ),
    Endpoint(
        *("GET", "/similar", "similar", "lists", "Items near to one"),
        "Which item a client asks for, when and from which address.",
        body=bodies.ItemList,
        parameters=(_ITEM, _K),
        refusals=_ASKED,
    ),
    Endpoint(
        *("GET", "/stream", "stream", "numbers"),
        *("Numbers of the whole stream, one each second", _NOTHING_OF_YOU),
        content_type="text/event-stream",
        body=bodies.StreamStatus,
        text="Server-sent events: each has the type status and one value as its data.",
        refusals=_WITHOUT_PARAMETERS | {503: (HttpReason.STREAMS,)},
    ),
    Endpoint(
        *("GET", "/demo", "demo", "numbers"),
        "In a demo: its size, and how good its lists are",
        _SAME_FOR_ALL,
        body=bodies.DemoFacts,
        later=True,
        **_CACHED | {"refusals": _WITHOUT_PARAMETERS | {404: (HttpReason.NOT_A_DEMO,)}},
    ),
    Endpoint(
        *("GET", "/ohttp-keys", "ohttpKeys", "take part"),
        *("The key of sealed requests", _SAME_FOR_ALL),
        content_type="application/ohttp-keys",
        text="Pin it: a relay could hand out a key of its own.",
        refusals=_WITHOUT_PARAMETERS | {404: (HttpReason.NO_RELAY,)},
    ),
    Endpoint(
        *(
            "POST",
            "/ohttp",
            "ohttp",
            "take part",
            "Any request, sealed (RFC 9458)",
        ),
        "What the request inside shows, and no address where a relay sends it.",
        content_type="message/ohttp-res",
        takes="message/ohttp-req",
        text="Streams, which have no end, are not found inside. A request that is sent again is "
        "answered again, as without a relay.",
        refusals={
            400: (HttpReason.SEALED,),
            404: (HttpReason.NO_RELAY,),
            413: (Reason.TOO_LARGE,),
            415: (HttpReason.CONTENT_TYPE,),
            503: (HttpReason.BUSY,),
        },
    ),
    Endpoint("GET", "/", "page", "pages", "The page", _CONTENTS, content_type=HTML, cached=True),
    Endpoint(
        *("GET", "/web/{name}", "files", "pages"),
        "The files of the page: device.js and ranking.js are the device, for any site",
        _CONTENTS,
        content_type="text/javascript",
        parameters=(_FILE,),
        refusals=_NO_FILE,
        cached=True,
    ),
    Endpoint(
        "GET", "/docs", "docs", "pages", "This contract", _CONTENTS, content_type=HTML, cached=True
    ),
    Endpoint(
        *("GET", "/openapi.json", "openapi", "pages", "This contract as OpenAPI 3.1", _CONTENTS),
        cached=True,
    ),
    Endpoint(
        *("GET", "/asyncapi.json", "asyncapi", "pages"),
        *("The topics and their messages as AsyncAPI 3.0", _CONTENTS),
        cached=True,
    ),
    Endpoint(
        *("GET", "/schemas/{name}.json", "schemas", "pages"),
        *("A JSON Schema (draft 2020-12)", _CONTENTS),
        parameters=(_SCHEMA,),
        refusals=_NO_FILE,
        cached=True,
    ),
    Endpoint(
        *("GET", "/livez", "livez", "operation", "Whether the process works", "Nothing."),
        body=bodies.Alive,
    ),
    Endpoint(
        *("GET", "/readyz", "readyz", "operation", "Whether events can be written", "Nothing."),
        body=bodies.Ready,
        text="503 with what the gateway waits for; its pages are served all the same.",
        other={503: bodies.Ready},
    ),
    Endpoint(
        *("GET", "/metrics", "metrics", "operation"),
        *("Metrics in the text format of Prometheus", "Nothing."),
        content_type=TEXT,
        text="Counts by reason and seconds; nothing of a client.",
    ),
)

BY_NAME: Mapping[str, Endpoint] = {each.name: each for each in ENDPOINTS}

# Refusals that every endpoint may give.
COMMON: Mapping[int, tuple[str, ...]] = {
    400: (HttpReason.REQUEST,),
    405: (HttpReason.METHOD,),
    421: (HttpReason.HOST,),
    500: (HttpReason.DEFECT,),
}
