"""The JSON values of a gateway's replies: `msgspec.json.encode` of one of these is a body.

`rules.py` describes every field.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from stream_app.gateway.contract.rejection_reasons import OF_REFUSALS
from stream_app.wire import LIST_LENGTH, MAX_SEQ, Visit
from stream_app.wire.events import TextItem
from stream_app.wire.ids import Listed, Unlisted
from stream_app.wire.limits import MAX_STAGES

_Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_SEQ)]
_Partition = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Key = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]
_User = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
# 2^64 as a count does not fit a number of JavaScript, hence text.
_Words = Annotated[str, msgspec.Meta(pattern="^[1-9][0-9]{0,19}$")]
_Rational = Annotated[str, msgspec.Meta(pattern="^[0-9]{1,20}(/[0-9]{1,20})?$")]
_Reason = Annotated[str, msgspec.Meta(extra_json_schema={"enum": list(OF_REFUSALS)})]
# A larger one would lose digits in JavaScript: it is text.
_IntItem = Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
_Entries = msgspec.Meta(max_length=LIST_LENGTH)


_Item = TypeVar("_Item", bound=Listed)


def exact(item: _Item) -> _Item | str:
    """Return an item as bodies name it, of which no reader loses a digit."""
    return str(item) if isinstance(item, int) and item >= 2**53 else item


class Accepted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An event is in the log, at this place of the rating topic."""

    partition: _Partition
    offset: _Count | None
    duplicate: bool


class Refusal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request was refused: a sentence for people, a reason for programs. It never repeats a
    value that the client sent."""

    error: str
    reason: _Reason
    held: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")] | msgspec.UnsetType = msgspec.UNSET


class CatalogueItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An item of the public catalogue."""

    item: _IntItem | TextItem
    key: _Key
    title: str
    genres: tuple[str, ...]
    year: int | None
    withdrawn: bool


class Catalogue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The public catalogue, the same for every client."""

    items: tuple[CatalogueItem, ...]
    left_out: _Count


class AllowedMechanism(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A mechanism that the deployment allows.

    `certificate` is what `murmurec certify` prints. A browser proves and samples `counts`, of
    `rr` and `like`, by itself; any other mechanism is not for browsers.
    """

    id: str
    family: str
    levels: Annotated[int, msgspec.Meta(ge=1, le=256)]
    epsilon: _Rational | None
    adjacency: str
    protected: str
    observed: str
    limit: str
    certificate: str | None
    counts: tuple[tuple[_Words, ...], ...] | None
    in_browser: bool
    why_not: str | None


class Mechanisms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a device may use here; it decides by itself, and proves each table by itself."""

    default: str
    privacy_mode: str
    devices: str
    topic: str
    allowed: tuple[AllowedMechanism, ...]
    demo: bool
    grafana: str | None


class CampaignStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The newest campaign; a device checks the plan against what it has pinned. `notice`: for how
    many seconds the plan was public before it opened, by the broker's times. `contributions`: how
    many counted in the stage, or in the last one of a campaign that has ended."""

    plan: Annotated[str, msgspec.Meta(extra_json_schema={"contentEncoding": "base64"})]
    stage: Annotated[int, msgspec.Meta(ge=0, lt=MAX_STAGES)] | None
    phase: str | None
    partitions: Annotated[int, msgspec.Meta(ge=1)]
    notice: float | None
    contributions: _Count | None


class ListFigures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """nDCG@k of lists over `users` simulated people, and the standard error of `here` minus
    `popular`."""

    served: float = msgspec.field(name="here")
    popular: float
    users: _Count
    error: float
    k: _Count


class DemoFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The size of a demo, and how good its lists are; null until it is measured."""

    mode: str
    people: _Count
    ratings: _Count
    quality: ListFigures | None


class ListedItem(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of a list."""

    item: _IntItem | TextItem | Unlisted
    title: str
    genres: tuple[str, ...]
    year: int | None
    score: float | None
    because: _IntItem | TextItem | Unlisted | None
    because_title: str | None


class ItemList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A list for a user, or items near to one (`user` is null), best first. Spaces after the value
    make all replies for one k equally long."""

    user: _User | None
    items: Annotated[tuple[ListedItem, ...], _Entries]
    method: str
    as_of: _Count
    privacy: str
    catching_up: bool
    ndcg: float | None
    ndcg_popular: float | None
    for_: Visit | None = msgspec.field(name="for")


class StreamStatus(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Numbers of the whole stream, of no single user; null where not known."""

    kafka: bool
    worker: bool | None = None
    ready: bool | None = None
    waiting_for: str | None = None
    cut: int | None = None
    ratings_per_second: float | None = None
    ratings: int | None = None
    devices: int | None = None
    rmse: float | None = None
    rmse_baseline: float | None = None
    ndcg: float | None = None
    ndcg_popular: float | None = None
    ndcg_error: float | None = None
    list_devices: int | None = None
    list_method: str | None = None
    kl_nats: float | None = None
    lag_records: int | None = None
    lag_seconds: float | None = None
    drift: float | None = None
    privacy: str | None = None


class Alive(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The process works."""

    alive: bool


class Ready(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Whether Kafka and its topics are there; if not, what the gateway waits for."""

    ready: bool
    waiting_for: str | None
