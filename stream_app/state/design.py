"""The design in force: the settings of a deployment that its log decides, and how they may change.

    settings of a worker --the first one writes them--> design in the log --> every worker
    murmurec config apply ----an entry of the cut log---^   from a cut on

A worker follows the design in the log, whatever its own settings say, so workers agree while an
operator changes them one by one. A change is one of three:

    in place    the arrays keep their layout or are extended: at a cut, without a pause
    beside      the arrays have another layout: a second state is computed from the log while the
                first serves, and takes over at a cut
    fixed       the log itself, or what devices were told, depends on it: a new deployment
                (--prefix)

Mechanisms are a set: those in force keep their order, which numbers them in the state, and others
follow by id. One that is withdrawn stays in the order, since the state holds its reports; its later
reports are rejected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any

from stream_app.privacy import registry
from stream_app.state.spec import Headers, StateSpec, recorded_settings
from stream_app.state.spec import settings_digest as digest_of
from stream_app.wire import DesignEntry

_OF_THE_RELEASE = "parameters", "state_format"
_SPECIAL = "mechanisms", "withdrawn", "seed", "revision"
_DEFAULT = StateSpec((registry.parse("rr:5:2"),))
_GROWING = "head_items", "recent_items"
_IN_PLACE = ("clip", "held_out", "mechanisms")
_FIXED = {
    "partitions": "the cuts name offsets of so many partitions",
    "devices": "the state numbers events of signed and unsigned devices in different ways",
    "privacy_mode": "it decides which parties and campaigns there are",
    "accept_tests": "events of tests are in the log",
    "shards": "each shard has a log of its own; murmurec state shards divides a state",
    "shard": "each shard has a log of its own",
}
_FIXED_OF_SHARDS = {"factors": "changes between shards are of rows with so many"}


class UnknownSettings(ValueError):
    """Settings as text that this release does not know."""


class Way(StrEnum):
    """How a setting changes."""

    IN_PLACE = "in place"
    BESIDE = "beside"
    FIXED = "fixed"


@dataclass(frozen=True)
class Change:
    """A setting with its value in force and another one as text, and how it can change; `reason` it
    cannot, for a fixed one."""

    setting: str
    before: str
    after: str
    way: Way
    reason: str = ""


def decided(spec: StateSpec) -> dict[str, str]:
    """Return the settings that an entry of the log holds, as text: all that an operator decides but
    the seed."""
    left_out = (*_OF_THE_RELEASE, "seed")
    return {name: value for name, value in spec.settings.items() if name not in left_out}


def design_id(spec: StateSpec) -> str:
    """Return the fingerprint of what an operator decides: the same in every release."""
    return digest_of(decided(spec))


def spec_of(texts: Mapping[str, str], seed: int) -> StateSpec:
    """Return the specification of settings as text; raises UnknownSettings for others than those of
    `decided` and for mechanisms of another release, ValueError for an impossible specification."""
    own = {field.name: getattr(_DEFAULT, field.name) for field in fields(StateSpec)}
    unknown = sorted(texts.keys() - own.keys())
    if unknown or "mechanisms" not in texts:
        raise UnknownSettings(f"{', '.join(unknown) or 'no mechanisms'}")
    try:
        mechanisms = tuple(registry.parse(each) for each in _parts(texts["mechanisms"], ", "))
    except ValueError as error:
        raise UnknownSettings(str(error)) from None
    found: dict[str, Any] = {
        name: _value(texts[name], default)
        for name, default in own.items()
        if name in texts and name not in _SPECIAL
    }
    return StateSpec(
        mechanisms=mechanisms,
        withdrawn=_parts(texts.get("withdrawn", ""), ", "),
        revision=int(texts.get("revision", "0")),
        seed=seed,
        **found,
    )


def _parts(text: str, between: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(between) if part)


def _value(text: str, default: object) -> object:
    if isinstance(default, bool):
        if text not in ("True", "False"):
            raise ValueError(f"{text!r} is neither True nor False")
        return text == "True"
    value = type(default)(text)  # type: ignore[call-arg]
    if value != value:
        raise ValueError(f"{text!r} is no number")
    return value


def recorded_spec(headers: Headers, seed: int) -> StateSpec | None:
    """Return the specification in the headers of a record; None where it has none of this release.
    It is that of the record if its digest is, which another seed has not either."""
    recorded = recorded_settings(headers)
    try:
        spec = spec_of({n: v for n, v in recorded.items() if n not in _OF_THE_RELEASE}, seed)
    except ValueError:
        return None
    own = spec.settings
    return spec if all(recorded.get(name) == own[name] for name in _OF_THE_RELEASE) else None


def merged(in_force: StateSpec, wanted: StateSpec) -> StateSpec:
    """Return the design to which `wanted` changes the one in force: the mechanisms in force in
    their order, then the others by id; those that are not wanted are withdrawn. It has the next
    revision, or is the one in force where nothing differs."""
    allowed = {each.id: each for each in wanted.allowed}
    known = {each.id for each in in_force.mechanisms}
    added = tuple(allowed[name] for name in sorted(allowed.keys() - known))
    withdrawn = tuple(each.id for each in in_force.mechanisms if each.id not in allowed)
    target = replace(
        wanted,
        mechanisms=(*in_force.mechanisms, *added),
        withdrawn=withdrawn,
        revision=in_force.revision,
    )
    return target if target == in_force else following(target, in_force)


def following(target: StateSpec, in_force: StateSpec) -> StateSpec:
    """Return a design with the revision after that of the one in force."""
    return replace(target, revision=in_force.revision + 1)


def changes(in_force: StateSpec, target: StateSpec) -> list[Change]:
    """Return what a target (`merged`) changes, by setting."""
    found = []
    before, after = _named(in_force), _named(target)
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, "own setting"), after.get(name, "own setting")
        if old != new:
            way = _way(name, in_force, target)
            found.append(Change(name, old, new, way, _fixed_in(in_force).get(name, "")))
    return found


def _named(spec: StateSpec) -> dict[str, str]:
    plain = {f.name: str(getattr(spec, f.name)) for f in fields(spec) if f.name not in _SPECIAL}
    allowed = ", ".join(sorted(each.id for each in spec.allowed))
    return {**plain, "mechanisms": allowed}


def _fixed_in(spec: StateSpec) -> Mapping[str, str]:
    return _FIXED if spec.shards == 1 else _FIXED | _FIXED_OF_SHARDS


def _way(name: str, before: StateSpec, after: StateSpec) -> Way:
    if name in _fixed_in(before):
        return Way.FIXED
    if name in _GROWING:
        return Way.IN_PLACE if getattr(before, name) < getattr(after, name) else Way.BESIDE
    return Way.IN_PLACE if name in _IN_PLACE else Way.BESIDE


def entry_of(
    in_force: StateSpec | None, target: StateSpec, built_to: int | None = None
) -> DesignEntry:
    """Return the entry, without a seal, that changes the design in force to a target; None: the
    entry that opens a log."""
    if in_force is None:
        return DesignEntry("", {}, decided(target))
    after = following(target, in_force)
    return DesignEntry(design_id(in_force), decided(in_force), decided(after), built_to)


def followed(entry: DesignEntry, in_force: StateSpec, *, opening: bool) -> StateSpec | None:
    """Return the design after an entry, None if the entry has no effect: another one came first, or
    it changes what it may not. `opening`: the log has no cut yet.

    Raises UnknownSettings for settings that this release does not know.
    """
    opens = opening and not entry.replaces
    if not opens and (entry.replaces, digest_of(entry.before)) != (design_id(in_force),) * 2:
        return None
    try:
        target = spec_of(entry.settings, in_force.seed)
    except UnknownSettings:
        raise
    except ValueError:
        return None
    if opens:
        return target
    if target.revision != in_force.revision + 1 or fixed(in_force, target):
        return None
    if target.mechanisms[: len(in_force.mechanisms)] != in_force.mechanisms:
        return None
    beside = any(change.way is Way.BESIDE for change in changes(in_force, target))
    return None if beside and entry.built_to is None else target


def fixed(in_force: StateSpec, own: StateSpec) -> str:
    """Return a clause for each setting that differs and cannot change; empty where none does."""
    names = _fixed_in(in_force)
    pairs = ((name, getattr(in_force, name), getattr(own, name)) for name in names)
    return "; ".join(f"{n} is {was} there and {is_} here" for n, was, is_ in pairs if was != is_)
