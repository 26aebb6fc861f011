"""Everything that can be set: flags over environment over one TOML file over defaults, frozen.

    flag          --admin-port 0                     what the command line passes to `load`
    environment   MURMUREC_ADMIN_PORT=0              of the table tuning: MURMUREC_TUNING_CLIP=4
    file          [admin] port = 0                   --config, MURMUREC_CONFIG or ./murmurec.toml
    default       8470

A setting has one name in the program, the flags and the environment (`admin_port`), and a place in
a table of the file, where the name of the table is not repeated. Settings that a user has a reason
to change are in the tables of `GROUPS`; all others are in the table tuning, their names in the
environment begin with MURMUREC_TUNING_, and `size` gives the sizes among them.

A mistake is refused with one sentence that names the value, where it came from and the limit; the
value of a secret is never repeated. The file is long because it declares every setting once, with
its range, its meaning and the sentence that a wrong value gets.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import platformdirs
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import ErrorDetails

from stream_app.errors import UserError

PREFIX = "MURMUREC_"
FILE = "murmurec.toml"
MEMORY_SHARE = 0.9
MASK = "********"
_MIB = 1024 * 1024
_LEAST_ITEMS = 65_536
_SECRET = re.compile(r"password|secret|token|jaas|credential|oauthbearer\.config|key\.pem|private")

LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"]


def _split(value: object) -> object:
    """Read `a,b,c` as a tuple: an environment variable has no other way to say it."""
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


def _properties(value: object) -> object:
    """Read `name=value,name=value` or a JSON object as Kafka properties."""
    if isinstance(value, str):
        if value.lstrip().startswith("{"):
            try:
                value = json.loads(value)
            except json.JSONDecodeError:
                raise ValueError("it starts like a JSON object and is none") from None
        else:
            pairs = [part.partition("=") for part in value.split(",") if part.strip()]
            if any(not equals or not name.strip() for name, equals, _ in pairs):
                raise ValueError("write name=value,name=value or a JSON object")
            value = {name.strip(): text.strip() for name, _, text in pairs}
    if isinstance(value, Mapping):
        # TOML reads `sasl.username = "x"` without quotes as nested tables.
        return {name: _word(text) for name, text in _flat(value)}
    return value


def _flat(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for name, value in table.items():
        if isinstance(value, Mapping):
            rows += _flat(value, f"{prefix}{name}.")
        else:
            rows.append((f"{prefix}{name}", value))
    return rows


def _word(value: object) -> object:
    """Write a number or a truth value of TOML as librdkafka reads it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value


def _unset(value: object) -> object:
    """Take an empty text, as compose leaves an unset variable, for None."""
    return None if isinstance(value, str) and not value.strip() else value


def _home(value: Path | None) -> Path | None:
    return value.expanduser() if value else None


def _names(value: tuple[str, ...]) -> tuple[str, ...]:
    """Check names of hosts; of what compose leaves, an unset variable is an empty one."""
    value = tuple(name for name in value if name)
    for name in value:
        if not re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", name):
            raise ValueError(f"{name!r} is not the name of a host, such as worker.example.org")
    return tuple(name.lower() for name in value)


Bytes = Annotated[ByteSize, Field(ge=1024)]
Host = Annotated[str, Field(min_length=1)]
Port = Annotated[int, Field(ge=0, le=65535)]
Words = Annotated[tuple[str, ...], BeforeValidator(_split)]
Hosts = Annotated[Words, Field(max_length=64), AfterValidator(_names)]
Unset = BeforeValidator(_unset)
Home = AfterValidator(_home)


class _Group(BaseModel):
    """A table of the file; `Settings` has the fields of all of them."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, use_attribute_docstrings=True
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **_: Any) -> None:
        """Make the description of each setting, the text below it, one line."""
        for field in cls.model_fields.values():
            field.description = " ".join((field.description or "").split())


class Broker(_Group):
    """[broker]: Kafka and the rights to it."""

    bootstrap_servers: str | None = None
    """Kafka, as host:port[,host:port]; unset: the demo and the tests start one"""
    kafka: Annotated[dict[str, str], BeforeValidator(_properties)] = Field(
        default_factory=dict, repr=False
    )
    """librdkafka properties passed through, such as security.protocol and sasl.*"""

    @field_validator("bootstrap_servers")
    @classmethod
    def _addresses(cls, value: str | None) -> str | None:
        """Check each `host:port`; an empty text, as compose leaves an unset variable, is None."""
        if value is None or not value.strip():
            return None
        addresses = [address.strip() for address in value.split(",")]
        for address in addresses:
            found = re.fullmatch(r"(?:[\w.-]+|\[[0-9A-Fa-f:.]+\])(?::(\d{1,5}))?", address)
            if found is None or not 1 <= int(found[1] or 9092) <= 65535:
                raise ValueError("write host:port[,host:port], without a scheme, ports 1 to 65535")
        return ",".join(addresses)


class TopicSettings(_Group):
    """[topics]: the topics of the deployment."""

    topic_prefix: str = Field("murmurec", pattern=r"^[A-Za-z0-9._-]{1,100}$")
    """first part of every topic's name: 1 to 100 of A-Z a-z 0-9 . _ -"""
    partitions: int = Field(4, ge=1, le=1024)
    """partitions of the rating topic, fixed for life"""
    shards: int = Field(1, ge=1, le=1024)
    """shares of the rating partitions, each learned by workers of its own, who exchange what they
    learn of items; a divisor of partitions, grown by state shards"""
    ratings_retention_seconds: float | None = Field(None, ge=60)
    """seconds, at least 60, for which Kafka keeps ratings; unset: without limit"""


class Privacy(_Group):
    """[privacy]: what devices may send, and what the server may learn of it."""

    mechanisms: Words = Field(("rr:5:2",), min_length=1, max_length=256)
    """mechanism ids that devices may use (allow-list), comma separated"""
    devices: Literal["open", "signed"] = "open"
    """signed: every event must be signed by its device; open: signatures are not checked, and all
    who may write ratings can write them in any device's name"""
    privacy_mode: Literal["local", "split", "central"] = "local"
    """split or central: campaigns, of whose contributions only noisy sums are public, summed by two
    aggregators that each know a share, or by one; local: none"""

    @field_validator("mechanisms")
    @classmethod
    def _ids(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for mechanism in value:
            if not re.fullmatch(r"[A-Za-z0-9_]+(:[A-Za-z0-9_.+/-]+)+", mechanism):
                raise ValueError(
                    f"mechanism {mechanism!r} is not family:levels:epsilon, such as rr:5:2"
                )
        return value

    @field_validator("mechanisms")
    @classmethod
    def _once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        value = tuple(mechanism for mechanism in value if mechanism)  # as compose leaves it
        if len(set(value)) != len(value):
            raise ValueError("it names a mechanism twice")
        return value


class Model(_Group):
    """[model]: what is learned, and in how much memory."""

    model: str = Field("hybrid", min_length=1, max_length=100)
    """name of the learner: hybrid (own rows while they last) or sketch"""
    size: Literal["small", "medium", "large"] = "medium"
    """memory of the state, by which sizes under tuning that are not set follow: small (a test),
    medium (a few hundred MB), large (2 GB)"""
    hash_seed: int = Field(1, ge=0, lt=2**57)
    """seed of every hash of the state, fixed for life and the same on every worker; a random number
    that devices do not know keeps them from choosing keys that collide"""


class Campaign(_Group):
    """[campaign]: the campaigns in which devices take part."""

    campaign_keys: Words = Field((), max_length=2)
    """public halves of the parties of campaigns, 64 hex digits each, a before b, comma separated:
    devices and workers follow no plan that names others; unset: a device needs --keys, a worker
    follows every plan"""
    campaign_scope: Annotated[Path | None, Unset, Home] = None
    """file with the public items of campaigns, one per line, as the campaign was announced; a
    device contributes to no plan over others; unset: it needs --scope"""

    campaign_notice_seconds: float = Field(86_400.0, ge=0, le=31_536_000)
    """for how long a plan was public before its first stage opened, by the broker's times: devices
    contribute to no other campaign, and a worker opens none sooner"""

    @field_validator("campaign_keys")
    @classmethod
    def _keys(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        value = tuple(key.lower() for key in value if key)  # as compose leaves an unset variable
        for key in value:
            if not re.fullmatch(r"[0-9a-f]{64}", key):
                raise ValueError(
                    f"{key[:70]!r} is not the public half of a party's keys, 64 hex digits; "
                    "murmurec aggregate prints it"
                )
        if len(set(value)) != len(value):
            raise ValueError("it names a key twice; each party has a key of its own")
        return value


class Admin(_Group):
    """[admin]: the pages of a worker for its operator."""

    admin_host: Host = "127.0.0.1"
    """address of /livez, /readyz and /metrics"""
    admin_port: Port = 8470
    """port of /livez, /readyz and /metrics; 0: any free one"""
    admin_hosts: Hosts = ()
    """names under which clients reach the admin port, comma separated, without a port; IP
    addresses, localhost and admin_host always do"""
    admin_token: Annotated[str | None, Unset] = Field(None, pattern=r"^[!-~]{16,512}$", repr=False)
    """a secret of 16 to 512 printable characters that clients of the admin port send as bearer
    token, for all pages but /livez and /readyz; unset: none is asked for"""


class Gateway(_Group):
    """[gateway]: the HTTP service for devices and readers."""

    gateway_host: Host = "127.0.0.1"
    """address at which the gateway listens"""
    gateway_port: Port = 8480
    """port of the gateway; 0: any free one"""
    gateway_hosts: Hosts = ()
    """names under which clients reach the gateway, comma separated, without a port; IP addresses,
    localhost and gateway_host always do"""
    gateway_origins: Words = Field((), max_length=64)
    """origins whose web pages may use the gateway, such as https://shop.example, comma separated; *
    for all; unset: its own page alone"""
    gateway_worker: Annotated[str | None, Unset] = Field(None, pattern=r"^https?://[^/?#@\s]+/?$")
    """where the gateway asks for a worker's numbers, such as http://worker:8470; unset: the admin
    port on this machine"""
    gateway_grafana: Annotated[str | None, Unset] = Field(
        None, pattern=r"^https?://[^/@?#\s]+(/[^?#\s]*)?$"
    )
    """address of Grafana, to which the page links, such as https://grafana.example.org; unset: no
    link"""
    gateway_relay_key: Annotated[Path | None, Unset, Home] = None
    """file with the key of sealed requests, made at the first start; unset: none are opened"""

    @field_validator("gateway_origins")
    @classmethod
    def _origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        value = tuple(origin for origin in value if origin)  # as compose leaves an unset variable
        for origin in value:
            if origin != "*" and not re.fullmatch(r"https?://[A-Za-z0-9._\[\]:-]+", origin):
                raise ValueError(
                    f"{origin!r} is not an origin, such as https://shop.example, without a path"
                )
        return tuple(origin.lower() for origin in value)


class Process(_Group):
    """[worker]: a process and what it keeps."""

    instance: str | None = Field(None, pattern=r"^[A-Za-z0-9._-]{1,100}$")
    """name of this worker in its group, kept over restarts (static membership), 1 to 100 of A-Z a-z
    0-9 . _ -; unset: a new member at every start"""
    shard: int | None = Field(None, ge=0, le=1023)
    """the shard that this worker holds, 0 to shards - 1; unset: those that its group gives it"""
    state_secret: Annotated[str | None, Unset] = Field(
        None, repr=False, min_length=32, max_length=4096
    )
    """32 to 4096 characters, such as from openssl rand -hex 32, with which workers seal checkpoints
    and digest reports; unset: no seal"""
    state_secret_file: Annotated[Path | None, Unset, Home] = None
    """file that holds state_secret, with a newline or without"""
    data_dir: Annotated[Path, Home] = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("murmurec"))
    )
    """what must survive: the local broker's log, a device's journal"""
    log_level: LogLevel = Field("INFO", description=" | ".join(get_args(LogLevel)))

    @field_validator("log_level", mode="before")
    @classmethod
    def _upper(cls, value: object) -> object:
        return value.upper() if isinstance(value, str) else value


class Tuning(_Group):
    """[tuning]: what has a sane value: change it for a reason that was measured."""

    query_partitions: int | None = Field(None, ge=1, le=1024)
    """partitions of the topics of queries and answers; unset: as many as of ratings, and 4 a
    shard where there are several"""
    replication_factor: int | None = Field(None, ge=1, le=100)
    """brokers that store each topic; unset: as many as there are, at most 3"""
    min_insync_replicas: int | None = Field(None, ge=1, le=100)
    """brokers that must have a record before it is acknowledged; unset: all copies but one"""
    group: str | None = Field(None, pattern=r"^[!-~]{1,249}$")
    """consumer group of the workers, 1 to 249 printable characters; unset: the topic prefix and
    -worker"""
    accept_tests: bool = False
    """accept events made with a predictable source of noise (tests only)"""
    gateway_rate: float = Field(50.0, ge=0, le=1_000_000)
    """events a second that a client's address, and a device, may send to the gateway, and queries
    of an address, after a burst of four times as many; 0: no limit"""
    factors: int = Field(32, ge=1, le=256)
    """length of a latent vector (d)"""
    depth: int = Field(4, ge=1, le=16)
    """rows of the sketch (k)"""
    sketch_bytes: Bytes = ByteSize(16 * _MIB)
    """memory of the vectors, such as 16MiB"""
    scalars_bytes: Bytes = ByteSize(8 * _MIB)
    """memory of the biases and their variances"""
    seen_bytes: Bytes = ByteSize(16 * _MIB)
    """memory of the filter of items already rated"""
    presence_bytes: Bytes = ByteSize(4 * _MIB)
    """memory of the rates of users and items where presence is protected"""
    clip: float = Field(float("inf"), gt=0)
    """largest squared error that is learned (no privacy claim)"""
    held_out: float = Field(0.05, ge=0, le=0.5)
    """share of the ratings that is measured and never learned"""
    head_items: int = Field(2048, ge=0, le=4096)
    """items of which pairs are counted, the most rated; 0: no pairs, no lists"""
    recent_items: int = Field(256, ge=16, le=1024, multiple_of=16)
    """recent items kept for each device where presence is public"""
    items_most: int | None = Field(None, ge=1024, le=2**31 - 1)
    """items that can have a row, for lists and pairs; unset: one for each 64 bytes of sketch_bytes,
    at least 65,536"""
    index: str = Field("auto", pattern="^(auto|qolsh)$")
    """how candidates are found where no pairs are counted (head_items = 0): auto (exact while that
    is faster, then pca) or qolsh"""
    recall: float = Field(0.99, gt=0, le=1)
    """share of the exact answer that a search must find, by sampled queries; 1: always exact"""
    cut_seconds: float = Field(0.2, ge=0.01, le=60)
    """time between two cuts while something arrives"""
    round_records: int = Field(2000, ge=1, le=100_000)
    """most records of one partition in one round"""
    replay_seconds: float = Field(2.0, ge=0.01, le=3600)
    """seconds of applying that a restart may repeat: then a checkpoint is written"""
    checkpoint_seconds: float | None = Field(None, ge=0.1, le=3600)
    """seconds, 0.1 to 3600, between two checkpoints at most; unset: without limit"""
    ready_lag_seconds: float = Field(30.0, ge=1, le=86_400)
    """a worker that lacks records which the log has held for so long is not ready"""
    item_table_seconds: float = Field(10.0, ge=0.1, le=3600)
    """time between two looks at the public item table"""
    item_links_seconds: float = Field(30.0, ge=0.1, le=3600)
    """least time between two versions of the public item side"""
    cache_dir: Annotated[Path, Home] = Field(
        default_factory=lambda: Path(platformdirs.user_cache_dir("murmurec"))
    )
    """what can be fetched again: Kafka's jars, data sets"""
    log_format: Literal["auto", "json", "console"] = "auto"
    """auto: console on a terminal, json elsewhere"""

    @field_validator("query_partitions")
    @classmethod
    def _divided(cls, value: int | None, others: ValidationInfo) -> int | None:
        """Check that each shard has as many."""
        shards = others.data.get("shards", 1)
        if value is not None and value % shards:
            raise ValueError(f"must be a multiple of shards, {shards}, such as {4 * shards}")
        return value


GROUPS: dict[str, type[_Group]] = {
    "broker": Broker,
    "topics": TopicSettings,
    "privacy": Privacy,
    "model": Model,
    "campaign": Campaign,
    "admin": Admin,
    "gateway": Gateway,
    "worker": Process,
    "tuning": Tuning,
}
_GROUP_OF = {name: group for group, each in GROUPS.items() for name in each.model_fields}
SIZES: dict[str, dict[str, int]] = {
    "small": {
        "sketch_bytes": 4 * _MIB,
        "scalars_bytes": 2 * _MIB,
        "seen_bytes": 4 * _MIB,
        "presence_bytes": 1 * _MIB,
        "head_items": 1024,
    },
    "medium": {},  # the defaults of the fields
    "large": {
        "sketch_bytes": 128 * _MIB,
        "scalars_bytes": 64 * _MIB,
        "seen_bytes": 128 * _MIB,
        "presence_bytes": 32 * _MIB,
        "head_items": 4096,
    },
}
"""What each `size` gives to the settings under tuning that are not set."""


class Settings(Tuning, Process, Gateway, Admin, Campaign, Model, Privacy, TopicSettings, Broker):
    """The settings of a run of murmurec; see each field's description."""

    @model_validator(mode="before")
    @classmethod
    def _sizes(cls, values: Any) -> Any:
        """Give the sizes that are not set the values of `size`."""
        size = values.get("size") if isinstance(values, Mapping) else None
        return {**SIZES[size], **values} if size in SIZES else values

    @property
    def signed(self) -> bool:
        """Whether devices sign their events."""
        return self.devices == "signed"

    @property
    def partitions_stated(self) -> bool:
        """Whether somebody set `partitions`: then it holds though a topic has more of them."""
        return "partitions" in self.model_fields_set

    @property
    def features(self) -> frozenset[str]:
        """The features that are on: those of `wire.topics.FEATURES` that need topics."""
        on = {
            "campaigns": self.privacy_mode != "local",
            "shards": self.shards > 1,
        }
        return frozenset(name for name, turned in on.items() if turned)

    @property
    def of_shard(self) -> str:
        """The end of what each of several shards has by a name of its own; else empty."""
        return f"-shard-{self.shard}" if self.shards > 1 and self.shard is not None else ""

    @property
    def worker_group(self) -> str:
        """The consumer group of the workers; those of each of several shards are one."""
        return (self.group or f"{self.topic_prefix}-worker") + self.of_shard

    @property
    def servers(self) -> str:
        """The bootstrap servers; raises `UserError` where none are configured."""
        if self.bootstrap_servers is None:
            raise UserError(
                "no Kafka is configured: give --bootstrap or set MURMUREC_BOOTSTRAP_SERVERS "
                "(murmurec broker start runs one here)"
            )
        return self.bootstrap_servers

    @property
    def most_items(self) -> int:
        """How many items can have a row; by default a number that grows with `sketch_bytes`, the
        same on every machine: twice as many as vectors of 32 components fit."""
        return self.items_most or max(_LEAST_ITEMS, self.sketch_bytes // 64)

    def shown(self) -> dict[str, Any]:
        """Return every value as JSON can write it, with the values of secrets masked."""
        values = self.model_dump(mode="json")
        values["kafka"] = {
            name: MASK if is_secret(name) else text for name, text in self.kafka.items()
        }
        hidden = {name for name in values if is_secret(name) and values[name] is not None}
        values |= dict.fromkeys(hidden, MASK)
        return {name: str(v) if v == float("inf") else v for name, v in values.items()}


def is_secret(name: str) -> bool:
    """Return whether the value of this setting or Kafka property must not be shown."""
    return _SECRET.search(name.lower()) is not None and not name.endswith("_file")


# --- loading ------------------------------------------------------------------------------------


def load(config_file: Path | None = None, **flags: Any) -> Settings:
    """Return the settings of a run; a flag that is None was not given. Raises `UserError`."""
    layers = _layers(config_file, flags)
    values = {name: value for layer in reversed(layers) for name, (_, value) in layer.items()}
    origins = {name: where for layer in reversed(layers) for name, (where, _) in layer.items()}
    tables = [_parsed(*layer["kafka"]) for layer in reversed(layers) if "kafka" in layer]
    if tables:
        # Property by property: a password from the environment joins a user name in the file.
        values["kafka"] = {name: text for table in tables for name, text in table.items()}
    for name, value in values.items():
        if isinstance(value, bool) and Settings.model_fields[name].annotation is not bool:
            raise UserError(f"{name} = {str(value).lower()} ({origins[name]}): {_limit(name)}")
    try:
        settings = Settings(**values)
    except ValidationError as error:
        raise UserError(_sentence(error.errors()[0], values, origins)) from None
    check_memory(settings, machine_bytes())
    return settings


# The device's own variables, which the command line reads itself.
_DEVICE = (
    *(f"device_{name}" for name in ("journal", "mechanism", "epsilon", "thinning")),
    *(f"device_{name}" for name in ("budget", "window", "emission", "history")),
)
_EDGE = ("edge_store", "edge_token")
_Layer = dict[str, tuple[str, Any]]
_FLAGS = {
    "bootstrap_servers": "--bootstrap",
    "kafka": "-X",
    "topic_prefix": "--prefix",
    "mechanisms": "--allow",
    "gateway_host": "--host",
    "gateway_port": "--port",
    "gateway_origins": "--origin",
    "gateway_rate": "--rate",
}


def variable(name: str) -> str:
    """Return the variable of the environment that holds a setting."""
    tuning = "TUNING_" if _GROUP_OF[name] == "tuning" else ""
    return f"{PREFIX}{tuning}{name.upper()}"


def place(name: str) -> tuple[str, str]:
    """Return the table of the file that holds a setting, and its key in it."""
    group = _GROUP_OF[name]
    return group, "name" if name == group else name.removeprefix(f"{group.removesuffix('s')}_")


def _layers(config_file: Path | None, flags: Mapping[str, Any]) -> tuple[_Layer, _Layer, _Layer]:
    """Return field -> (where it was set, value) of the flags, the environment and the file."""
    given = {name: value for name, value in flags.items() if value is not None}
    for name in given:
        _known(name, f"setting {name}")
    return (
        {n: (_FLAGS.get(n, f"--{n.replace('_', '-')}"), v) for n, v in given.items()},
        _environment(),
        _table(_file(config_file)),
    )


def _environment() -> _Layer:
    """Return the variables that are settings; refuses one of another table, and a near miss.

    Only a near miss: Kubernetes puts MURMUREC_SERVICE_HOST and the like here.
    """
    found: _Layer = {}
    names = {variable(name): name for name in Settings.model_fields}
    known = {each.removeprefix(PREFIX).lower() for each in names} | {*_DEVICE, *_EDGE}
    for given, value in os.environ.items():
        shout = given.upper()
        name = shout.removeprefix(PREFIX).lower()
        if shout in names:
            found[names[shout]] = shout, value
        elif shout.startswith(PREFIX) and name not in known:
            if name in Settings.model_fields:
                raise UserError(f"{given}: this setting is {variable(name)}{_in_file(name)}")
            if near := difflib.get_close_matches(name, known, 1, 0.8):
                meant = f"{PREFIX}{near[0].upper()}"
                raise UserError(f"unknown environment variable {given}: did you mean {meant}?")
    return found


def _table(path: Path | None) -> _Layer:
    """Return the settings of a file; refuses a key that is unknown or outside its table."""
    found: _Layer = {}
    names = {place(name): name for name in Settings.model_fields}
    for group, table in (_toml(path) if path else {}).items():
        what = f"key {group} in {path}"
        if group not in GROUPS or not isinstance(table, Mapping):
            if group in Settings.model_fields:
                raise UserError(f"{what}: this setting is {_in_file(group).strip(', ()')}")
            _known(group, what, GROUPS)
        for key, value in table.items():
            if (group, key) not in names:
                keys = [each for table, each in names if table == group]
                _known(key, f"key {key} of [{group}] in {path}", keys)
            found[names[group, key]] = str(path), value
    return found


def _in_file(name: str) -> str:
    group, key = place(name)
    return f" ({key} in the table [{group}] of the file)"


def _known(name: str, what: str, known: Iterable[str] | None = None) -> None:
    """Refuse a name that is not among `known`, by default the settings, with the nearest one."""
    known = Settings.model_fields if known is None else known
    if name not in known:
        near = difflib.get_close_matches(name, known, 1, 0.5)
        fix = f"did you mean {near[0]}?" if near else "murmurec config show lists all"
        raise UserError(f"unknown {what}: {fix}")


def _file(config_file: Path | None) -> Path | None:
    if named := config_file or os.environ.get(f"{PREFIX}CONFIG"):
        return Path(named)
    return Path(FILE) if Path(FILE).exists() else None


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"the configuration file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UserError(f"the configuration file {path} is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"the configuration file {path} is not TOML: {error}") from None


def _parsed(where: str, value: object) -> dict[str, str]:
    try:
        table = _properties(value)
    except ValueError as error:
        raise UserError(f"kafka ({where}): {error}") from None
    if not isinstance(table, dict):
        raise UserError(f"kafka ({where}): write a table of Kafka properties")
    return table


# --- refusing -----------------------------------------------------------------------------------


def _sentence(error: ErrorDetails, values: Mapping[str, Any], origins: Mapping[str, str]) -> str:
    """Return one sentence with the value, where it came from and the limit."""
    name, *deeper = (str(part) for part in error["loc"])
    where = origins.get(name, "default")
    if name == "kafka":
        return f"kafka property {'.'.join(deeper)} ({where}): its value must be a text"
    value = values.get(name)
    shown = value if isinstance(value, str) else json.dumps(value, default=str)
    if is_secret(name):
        shown = MASK
    # The text of a check of our own says more than the field's range.
    limit = (
        str(error["ctx"]["error"])
        if error["type"] == "value_error" and "error" in error.get("ctx", {})
        else _limit(name)
    )
    return f"{name} = {shown[:80]} ({where}): {limit}"


_BOUNDS = (("ge", "at least"), ("gt", "above"), ("le", "at most"), ("lt", "below"))
_KINDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    ByteSize: "a size such as 16MiB",
}


def _limit(name: str) -> str:
    """Return what a field's value must be, from the field itself."""
    field = Settings.model_fields[name]
    choices = get_args(field.annotation)
    if choices and all(isinstance(choice, str) for choice in choices):
        return f"must be one of {', '.join(choices)}"
    bounds = [
        f"{word} {getattr(rule, mark)}"
        for rule in field.metadata
        for mark, word in (*_BOUNDS, ("multiple_of", "a multiple of"))
        if getattr(rule, mark, None) is not None
    ]
    kind = next((_KINDS[kind] for kind in (field.annotation, *choices) if kind in _KINDS), None)
    if kind is None:
        return f"expected: {field.description}"
    return f"must be {', '.join([kind, *bounds])}{', or unset' if choices else ''}"


def machine_bytes() -> int:
    """Return the memory this process may use: the machine's, or its container's."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            memory = min(memory, int(Path(limit).read_text()))
        except (OSError, ValueError):
            continue
    return memory


# A worker without its state: Python, compiled kernels, Kafka clients, records on their way.
PROCESS_BYTES = 250 * _MIB


PAIR_BYTES = 12
"""What two items of the head take: 4 bytes in each of three tables (rated together, in order,
reported together)."""


def item_bytes(settings: Settings) -> int:
    """Return what an item with a row takes: its rows, and its vector in the learner's copies."""
    return 80 + 8 * settings.factors


def check_memory(settings: Settings, memory: int, shards: int = 1) -> None:
    """Refuse sizes with which a worker would pass `MEMORY_SHARE` of the machine's memory, or one
    that holds so many `shards`, with a process and a state for each.

    While a checkpoint is written, what changes is held twice; a fast backlog changes everything. A
    recovery takes less: 1.7 times the state (measured at 1 GiB).
    """
    pairs = PAIR_BYTES * settings.head_items**2
    sizes = settings.sketch_bytes, settings.scalars_bytes, settings.seen_bytes
    state = sum((*sizes, settings.presence_bytes, pairs))
    items = settings.most_items * item_bytes(settings)
    process = 2 * state + items + PROCESS_BYTES
    needed = shards * process
    if needed > MEMORY_SHARE * memory:
        one = f"{_shown(process)}, for {shards} shards " if shards > 1 else ""
        raise UserError(
            "sketch_bytes + scalars_bytes + seen_bytes + presence_bytes "
            f"+ {PAIR_BYTES} x head_items^2 ({PAIR_BYTES} x {settings.head_items}^2 = "
            f"{_shown(pairs)}) = {_shown(state)}, held twice while a checkpoint is written and "
            f"everything changes, + items_most x {item_bytes(settings)} bytes "
            f"({settings.most_items:,} items, {_shown(items)}) + {_shown(PROCESS_BYTES)} for the "
            f"process = {one}{_shown(needed)}, more than {MEMORY_SHARE:.0%} of the "
            f"{_shown(memory)} of memory here: lower one of them"
        )


def _shown(size: int) -> str:
    return ByteSize(size).human_readable()
