"""Everything that can be set: flags over environment over one TOML file over defaults, frozen.

    flag          --admin-port 0                     what the command line passes to `load`
    environment   MURMUREC_ADMIN_PORT=0
    file          admin_port = 0                     --config, MURMUREC_CONFIG or ./murmurec.toml
    default       8470

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
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import platformdirs
from pydantic import BeforeValidator, ByteSize, Field, ValidationError, field_validator
from pydantic_core import ErrorDetails
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from stream_app.errors import UserError

PREFIX = "MURMUREC_"
FILE = "murmurec.toml"
MEMORY_SHARE = 0.9
MASK = "********"
LISTS_BY_CO_RATINGS = ("slope-one", "cosine")
LEARNER_BESIDE = "hybrid"  # decodes the reports where `model` names lists by co-ratings
_MIB = 1024 * 1024
_LEAST_ITEMS = 65_536
_SECRET = re.compile(
    r"password|secret|token|jaas|credential|oauthbearer\.config|key\.pem|private(?!_list_epsilon$)"
)

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


Bytes = Annotated[ByteSize, Field(ge=1024)]


class Settings(BaseSettings):
    """The settings of a run of murmurec; see each field's description."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, frozen=True, extra="forbid", hide_input_in_errors=True
    )

    bootstrap_servers: str | None = Field(
        None, description="Kafka, as host:port[,host:port]; unset: the demo and the tests start one"
    )
    kafka: Annotated[dict[str, str], NoDecode, BeforeValidator(_properties)] = Field(
        default_factory=dict,
        repr=False,
        description="librdkafka properties passed through, such as security.protocol and sasl.*",
    )
    topic_prefix: str = Field(
        "murmurec",
        pattern=r"^[A-Za-z0-9._-]{1,100}$",
        description="first part of every topic's name: 1 to 100 of A-Z a-z 0-9 . _ -",
    )
    partitions: int = Field(
        4, ge=1, le=1024, description="partitions of the rating topic, fixed for life"
    )
    query_partitions: int | None = Field(
        None,
        ge=1,
        le=1024,
        description="partitions of the topics of queries and answers; unset: as many as of ratings",
    )
    replication_factor: int | None = Field(
        None,
        ge=1,
        le=100,
        description="brokers that store each topic; unset: as many as there are, at most 3",
    )
    min_insync_replicas: int | None = Field(
        None,
        ge=1,
        le=100,
        description="brokers that must have a record before it is acknowledged; unset: all copies "
        "but one",
    )
    group: str | None = Field(
        None,
        pattern=r"^[!-~]{1,249}$",
        description="consumer group of the workers, 1 to 249 printable characters; "
        "unset: the topic prefix and -worker",
    )
    mechanisms: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)] = Field(
        ("rr:5:2",),
        min_length=1,
        max_length=256,
        description="mechanism ids that devices may use (allow-list), comma separated",
    )
    profile_mechanisms: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)] = Field(
        (),
        max_length=16,
        description="ids of profile mechanisms that devices may use, comma separated: a worker "
        "then reads profiles and serves neighbours; unset: it reads none",
    )
    profiles_most: int = Field(
        10_000,
        ge=2,
        le=1_000_000,
        description="devices whose newest profile a worker holds; of more it holds as many",
    )
    devices: Literal["open", "signed"] = Field(
        "open",
        description="signed: every event must be signed by its device; open: signatures are not "
        "checked, and all who may write ratings can write them in any device's name",
    )
    privacy_mode: Literal["local", "split", "central"] = Field(
        "local",
        description="split or central: campaigns, of whose contributions only noisy sums are "
        "public, summed by two aggregators that each know a share, or by one; local: none",
    )
    campaign_keys: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)] = Field(
        (),
        max_length=2,
        description="public halves of the parties of campaigns, 64 hex digits each, a before b, "
        "comma separated: devices and workers follow no plan that names others; unset: a device "
        "needs --keys, a worker follows every plan",
    )
    campaign_scope: Path | None = Field(
        None,
        description="file with the public items of campaigns, one per line, as the campaign was "
        "announced; a device contributes to no plan over others; unset: it needs --scope",
    )
    instance: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9._-]{1,100}$",
        description="name of this worker in its group, kept over restarts (static membership), "
        "1 to 100 of A-Z a-z 0-9 . _ -; unset: a new member at every start",
    )
    accept_tests: bool = Field(
        False, description="accept events made with a predictable source of noise (tests only)"
    )
    admin_host: str = Field(
        "127.0.0.1", min_length=1, description="address of /livez, /readyz and /metrics"
    )
    admin_port: int = Field(
        8470, ge=0, le=65535, description="port of /livez, /readyz and /metrics; 0: any free one"
    )
    admin_hosts: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)] = Field(
        (),
        max_length=64,
        description="names under which clients reach the admin port, comma separated, without a "
        "port; IP addresses, localhost and admin_host always do",
    )
    admin_token: str | None = Field(
        None,
        pattern=r"^[!-~]{16,512}$",
        repr=False,
        description="a secret of 16 to 512 printable characters that clients of the admin port "
        "send as bearer token, for all pages but /livez and /readyz; unset: none is asked for",
    )
    gateway_host: str = Field(
        "127.0.0.1", min_length=1, description="address at which the gateway listens"
    )
    gateway_port: int = Field(
        8480, ge=0, le=65535, description="port of the gateway; 0: any free one"
    )
    gateway_hosts: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)] = Field(
        (),
        max_length=64,
        description="names under which clients reach the gateway, comma separated, without a port; "
        "IP addresses, localhost and gateway_host always do",
    )
    gateway_origins: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)] = Field(
        (),
        max_length=64,
        description="origins whose web pages may use the gateway, such as https://shop.example, "
        "comma separated; * for all; unset: its own page alone",
    )
    gateway_rate: float = Field(
        50.0,
        ge=0,
        le=1_000_000,
        description="events a second that a client's address, and a device, may send to the "
        "gateway, and queries of an address, after a burst of four times as many; 0: no limit",
    )
    gateway_worker: str | None = Field(
        None,
        pattern=r"^https?://[^/?#@\s]+/?$",
        description="where the gateway asks for a worker's numbers, such as http://worker:8470; "
        "unset: the admin port on this machine",
    )
    # Names of learners and indexes are checked against their tables in deployment.py.
    model: str = Field(
        "hybrid",
        min_length=1,
        max_length=100,
        description="name of the learner: hybrid (own rows while they last), sketch (blocked), "
        "literal (as in Balu 2016), or the baselines hashing and dense; slope-one and cosine rank "
        "lists by co_ratings, beside the learner hybrid",
    )
    factors: int = Field(32, ge=1, le=256, description="length of a latent vector (d)")
    depth: int = Field(4, ge=1, le=16, description="rows of the sketch (k)")
    sketch_bytes: Bytes = Field(
        ByteSize(16 * _MIB), description="memory of the vectors, such as 16MiB; dense grows instead"
    )
    scalars_bytes: Bytes = Field(
        ByteSize(8 * _MIB), description="memory of the biases and their variances"
    )
    seen_bytes: Bytes = Field(
        ByteSize(16 * _MIB), description="memory of the filter of items already rated"
    )
    presence_bytes: Bytes = Field(
        ByteSize(4 * _MIB),
        description="memory of the rates of users and items where presence is protected",
    )
    clip: float = Field(
        float("inf"), gt=0, description="largest squared error that is learned (no privacy claim)"
    )
    held_out: float = Field(
        0.05, ge=0, le=0.5, description="share of the ratings that is measured and never learned"
    )
    head_items: int = Field(
        2048,
        ge=0,
        le=4096,
        description="items of which pairs are counted, the most rated; 0: no pairs, no lists",
    )
    recent_items: int = Field(
        256,
        ge=16,
        le=1024,
        multiple_of=16,
        description="recent items kept for each device where presence is public",
    )
    co_ratings: bool = Field(
        False,
        description="count for each two items of the head who rated both, with sums of differences "
        "and products of the ratings, for Slope One and cosine; only where presence is public",
    )
    similar_from: Literal["state", "published"] = Field(
        "state",
        description="what near items, private lists and lists by slope-one and cosine come from: "
        "the state, or the public table of noised similarities alone (murmurec similarities "
        "publish)",
    )
    similarity_budget: float = Field(
        0.0,
        ge=0,
        le=1000,
        description="epsilon, at delta 1e-6 and for everything that a device reported, that all "
        "published tables of similarities together may cost; 0: none is published",
    )
    list_budget: float = Field(
        0.0,
        ge=0,
        le=10_000,
        description="epsilon that all private lists of a user may cost together (ask "
        "--private-list); 0: no private lists; needs co_ratings",
    )
    private_list_epsilon: float | None = Field(
        None,
        ge=0.001,
        le=10_000,
        description="largest epsilon of one private list; unset: list_budget",
    )
    items_most: int | None = Field(
        None,
        ge=1024,
        le=2**31 - 1,
        description="items that can have a row, for lists and pairs; unset: one for each 64 bytes "
        "of sketch_bytes, at least 65,536",
    )
    index: str = Field(
        "auto",
        min_length=1,
        max_length=100,
        description="how candidates are found: exact, pca, qolsh, or auto (exact while that is "
        "faster, then pca)",
    )
    recall: float = Field(
        0.99,
        gt=0,
        le=1,
        description="share of the exact answer that a search must find, by sampled queries; 1: "
        "always exact",
    )
    code_bits: int = Field(256, ge=64, le=4096, multiple_of=64, description="bits of a qoLSH code")
    cut_seconds: float = Field(
        0.2, ge=0.01, le=60, description="time between two cuts while something arrives"
    )
    round_records: int = Field(
        2000, ge=1, le=100_000, description="most records of one partition in one round"
    )
    replay_seconds: float = Field(
        2.0,
        ge=0.01,
        le=3600,
        description="seconds of applying that a restart may repeat: then a checkpoint is written",
    )
    checkpoint_seconds: float | None = Field(
        None,
        ge=0.1,
        le=3600,
        description="seconds, 0.1 to 3600, between two checkpoints at most; unset: without limit",
    )
    ready_lag_seconds: float = Field(
        30.0,
        ge=1,
        le=86_400,
        description="a worker that lacks records which the log has held for so long is not ready",
    )
    ratings_retention_seconds: float | None = Field(
        None,
        ge=60,
        description="seconds, at least 60, for which Kafka keeps ratings; unset: without limit",
    )
    item_table_seconds: float = Field(
        10.0, ge=0.1, le=3600, description="time between two looks at the public item table"
    )
    item_links_seconds: float = Field(
        30.0, ge=0.1, le=3600, description="least time between two versions of the public item side"
    )
    hash_seed: int = Field(
        1,
        ge=0,
        lt=2**57,
        description="seed of every hash of the state, fixed for life and the same on every worker; "
        "a random number that devices do not know keeps them from choosing keys that collide",
    )
    state_secret: str | None = Field(
        None,
        repr=False,
        min_length=32,
        max_length=4096,
        description="32 to 4096 characters, such as from openssl rand -hex 32, with which workers "
        "seal checkpoints and digest reports; unset: no seal",
    )
    state_secret_file: Path | None = Field(
        None, description="file that holds state_secret, with a newline or without"
    )
    data_dir: Path = Field(
        default_factory=lambda: Path(platformdirs.user_data_dir("murmurec")),
        description="what must survive: the local broker's log, a device's journal",
    )
    cache_dir: Path = Field(
        default_factory=lambda: Path(platformdirs.user_cache_dir("murmurec")),
        description="what can be fetched again: Kafka's jars, data sets",
    )
    log_level: LogLevel = Field("INFO", description=" | ".join(get_args(LogLevel)))
    log_format: Literal["auto", "json", "console"] = Field(
        "auto", description="auto: console on a terminal, json elsewhere"
    )

    @field_validator("log_level", mode="before")
    @classmethod
    def _upper(cls, value: object) -> object:
        return value.upper() if isinstance(value, str) else value

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

    @field_validator("profile_mechanisms")
    @classmethod
    def _profile_ids(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        value = tuple(mechanism for mechanism in value if mechanism)  # as compose leaves it
        if len(set(value)) != len(value):
            raise ValueError("it names a mechanism twice")
        return value

    @field_validator("mechanisms")
    @classmethod
    def _ids(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for mechanism in value:
            if not re.fullmatch(r"[A-Za-z0-9_]+(:[A-Za-z0-9_.+/-]+)+", mechanism):
                raise ValueError(
                    f"mechanism {mechanism!r} is not family:levels:epsilon, such as rr:5:2"
                )
        if len(set(value)) != len(value):
            raise ValueError("it names a mechanism twice")
        return value

    @field_validator(
        "admin_token",
        "state_secret",
        "state_secret_file",
        "campaign_scope",
        "gateway_worker",
        mode="before",
    )
    @classmethod
    def _unset(cls, value: object) -> object:
        """Take an empty text, as compose leaves an unset variable, for None."""
        return None if isinstance(value, str) and not value.strip() else value

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

    @field_validator("admin_hosts", "gateway_hosts")
    @classmethod
    def _names(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        value = tuple(name for name in value if name)  # as compose leaves an unset variable
        for name in value:
            if not re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", name):
                raise ValueError(f"{name!r} is not the name of a host, such as worker.example.org")
        return tuple(name.lower() for name in value)

    @field_validator("campaign_keys")
    @classmethod
    def _keys(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        value = tuple(key.lower() for key in value if key)  # as compose leaves an unset variable
        for key in value:
            if not re.fullmatch(r"[0-9a-f]{64}", key):
                raise ValueError(
                    f"{key[:70]!r} is not the public half of a party's keys, 64 hex digits; "
                    "murmurec keys show prints it"
                )
        if len(set(value)) != len(value):
            raise ValueError("it names a key twice; each party has a key of its own")
        return value

    @field_validator("data_dir", "cache_dir", "state_secret_file", "campaign_scope")
    @classmethod
    def _home(cls, value: Path | None) -> Path | None:
        return value.expanduser() if value else None

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 (the library names the arguments)
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Leave one source: `load` reads the others, so it knows where each value is from."""
        return (init_settings,)

    @property
    def signed(self) -> bool:
        """Whether devices sign their events."""
        return self.devices == "signed"

    @property
    def features(self) -> frozenset[str]:
        """The features that are on: those of `wire.topics.FEATURES` that need topics."""
        on = {
            "campaigns": self.privacy_mode != "local",
            "profiles": bool(self.profile_mechanisms),
            "private lists": self.list_budget > 0,
            "similarities": self.similarity_budget > 0 or self.similar_from == "published",
        }
        return frozenset(name for name, turned in on.items() if turned)

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
_DEVICE = tuple(
    f"device_{name}"
    for name in (
        "journal",
        "mechanism",
        "epsilon",
        "share",
        "budget",
        "window",
        "emission",
        "history",
    )
)
_REMOVED = {
    "checkpoint_bytes": "checkpoints are written by replay_seconds, and by checkpoint_seconds "
    "where that is set; leave it out"
}
_Layer = dict[str, tuple[str, Any]]
_FLAGS = {
    "bootstrap_servers": "--bootstrap",
    "kafka": "-X",
    "topic_prefix": "--prefix",
    "mechanisms": "--allow",
}


def _layers(config_file: Path | None, flags: Mapping[str, Any]) -> tuple[_Layer, _Layer, _Layer]:
    """Return field -> (where it was set, value) of the flags, the environment and the file."""
    given = {name: value for name, value in flags.items() if value is not None}
    for name in given:
        _known(name, f"setting {name}")
    known = {*Settings.model_fields, *_DEVICE}
    for variable in os.environ:
        _in_use(variable.removeprefix(PREFIX).lower(), variable)
        # Only a near miss is refused: Kubernetes puts MURMUREC_SERVICE_HOST and the like here.
        name = variable.removeprefix(PREFIX).lower()
        if variable.startswith(PREFIX) and name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.8)
            if near:
                meant = f"{PREFIX}{near[0].upper()}"
                raise UserError(f"unknown environment variable {variable}: did you mean {meant}?")
    environment = EnvSettingsSource(Settings)()
    place = _file(config_file)
    table = _toml(place) if place else {}
    for name in table:
        _known(name, f"key {name} in {place}")
    return (
        {n: (_FLAGS.get(n, f"--{n.replace('_', '-')}"), v) for n, v in given.items()},
        {n: (f"{PREFIX}{n.upper()}", v) for n, v in environment.items()},
        {n: (str(place), v) for n, v in table.items()},
    )


def _in_use(name: str, what: str) -> None:
    if name in _REMOVED:
        raise UserError(f"{what}: this setting was removed: {_REMOVED[name]}")


def _known(name: str, what: str) -> None:
    _in_use(name, what)
    if name not in Settings.model_fields:
        near = difflib.get_close_matches(name, Settings.model_fields, 1, 0.5)
        fix = f"did you mean {near[0]}?" if near else "murmurec config show lists all"
        raise UserError(f"unknown {what}: {fix}")


def _file(config_file: Path | None) -> Path | None:
    named = config_file or (Path(os.environ[f"{PREFIX}CONFIG"]) if _config_named() else None)
    if named is not None:
        return named
    return Path(FILE) if Path(FILE).exists() else None


def _config_named() -> bool:
    return bool(os.environ.get(f"{PREFIX}CONFIG"))


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


def pair_bytes(settings: Settings) -> int:
    """Return what two items of the head take: 4 bytes in each of three tables (rated together, in
    order, reported together) and, counted once for both of (i, j) and (j, i), 16 of co-ratings."""
    return 20 if settings.co_ratings else 12


def item_bytes(settings: Settings) -> int:
    """Return what an item with a row takes: its rows, and its vector in the learner's copies."""
    return 80 + 8 * settings.factors


def check_memory(settings: Settings, memory: int) -> None:
    """Refuse sizes with which a worker would pass `MEMORY_SHARE` of the machine's memory.

    While a checkpoint is written, what changes is held twice; a fast backlog changes everything. A
    recovery takes less: 1.7 times the state (measured at 1 GiB).
    """
    each = pair_bytes(settings)
    pairs = each * settings.head_items**2
    sizes = settings.sketch_bytes, settings.scalars_bytes, settings.seen_bytes
    state = sum((*sizes, settings.presence_bytes, pairs))
    items = settings.most_items * item_bytes(settings)
    needed = 2 * state + items + PROCESS_BYTES
    if needed > MEMORY_SHARE * memory:
        raise UserError(
            "sketch_bytes + scalars_bytes + seen_bytes + presence_bytes "
            f"+ {each} x head_items^2 ({each} x {settings.head_items}^2 = "
            f"{_shown(pairs)}) = {_shown(state)}, held twice while a checkpoint is written and "
            f"everything changes, + items_most x {item_bytes(settings)} bytes "
            f"({settings.most_items:,} items, {_shown(items)}) + {_shown(PROCESS_BYTES)} for the "
            f"process = {_shown(needed)}, more than {MEMORY_SHARE:.0%} of the {_shown(memory)} of "
            "memory here: lower one of them"
        )


def _shown(size: int) -> str:
    return ByteSize(size).human_readable()
