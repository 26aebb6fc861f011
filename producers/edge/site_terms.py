"""The terms of a site: what its accounts may spend, what is reported, and what its lists are.

    [plan]        epsilon = 20, delta = 1e-6, window_days = 365 (0: for life), for = "adaptive"
    [reports]     mechanism = "rr:5:2", every_seconds = 60, scale = [1, 5, 1], signed = false
    [feedback]    purchase = 5, view = "0.3 like"                 (`events.feedback_types`)
    [lists]       read_again_days = 90, explore = 0.05, models = ["local", "popular"]

Every part may be left out. `for` is the mechanism that a budget is planned for; without it the
first release decides. An account keeps the terms on which it was enrolled; a change holds for later
ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from producers.device.rating import check_levels_agree
from producers.edge.events.feedback_types import FeedbackTypes
from producers.person.enrolment import PersonBudget
from producers.person.plans import checked_plan
from producers.person.reports import room
from producers.scale import Scale
from stream_app.errors import UserError
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.parsing import shorten
from stream_app.privacy.privacy_map import Adjacency

REPORT_SECONDS = 60.0
_LONGEST = 1 << 20  # bytes of a file
_T = TypeVar("_T")


@dataclass(frozen=True)
class SiteTerms:
    """The terms of a site; see the module. `read_again_days`: after how long an item that was read
    may be shown again, None for never. `explore`: the share of a list for new items."""

    budget: PersonBudget = field(default_factory=PersonBudget)
    mechanism: Mechanism = field(default_factory=lambda: registry.parse("rr:5:2"))
    scale: Scale = field(default_factory=Scale)
    feedback: FeedbackTypes = field(default_factory=FeedbackTypes)
    report_seconds: float = REPORT_SECONDS
    signed: bool = False
    read_again_days: float | None = None
    explore: float = 0.0
    models: tuple[str, ...] = ("local",)

    def __post_init__(self) -> None:
        check_levels_agree(self.scale, self.mechanism)
        if not self.budget.limited:
            raise ValueError("epsilon none: an account of a person has a limit, as 20")
        if self.mechanism.epsilon is None:
            raise ValueError(
                f"mechanism {self.mechanism.id}: protects nothing, and no person's budget holds it"
            )
        if room(self.budget, {}, self.mechanism) == 0:
            raise ValueError(
                f"[plan] and [reports]: the budget of {self.budget} holds no report of "
                f"{self.mechanism.id}; raise epsilon, or report with a smaller one"
            )

    @property
    def hides_presence(self) -> bool:
        """Whether reports hide which items a user has met: they follow a schedule then."""
        return self.mechanism.adjacency is Adjacency.CELL


_Number = int | float | str


class _Plan(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename={"purpose": "for"}):
    epsilon: _Number = 20
    delta: _Number = "0.000001"
    window_days: Annotated[int, Meta(ge=0, lt=2**32)] = 365
    purpose: str = ""


class _Reports(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    mechanism: str = "rr:5:2"
    every_seconds: Annotated[float, Meta(ge=0.1, le=31 * 86_400)] = REPORT_SECONDS
    scale: tuple[float, float, float] = (1.0, 5.0, 1.0)
    signed: bool = False


class _Lists(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    read_again_days: Annotated[float, Meta(gt=0)] | None = None
    explore: Annotated[float, Meta(ge=0, le=0.5)] = 0.0
    models: Annotated[
        tuple[Annotated[str, Meta(pattern="^[a-z][a-z_-]{0,31}$")], ...],
        Meta(min_length=1, max_length=8),
    ] = ("local",)


class _File(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    plan: _Plan = _Plan()
    reports: _Reports = _Reports()
    feedback: dict[str, Any] = {}
    lists: _Lists = _Lists()


def read(path: Path) -> SiteTerms:
    """Return the terms in a TOML file; UserError with the file and the mistake."""
    try:
        with path.expanduser().open("rb") as file:
            data = file.read(_LONGEST + 1)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    if len(data) > _LONGEST:
        raise UserError(f"{path}: is longer than {_LONGEST} bytes; is it the terms of a site?")
    return parsed(data, str(path))


def parsed(data: bytes, name: str = "terms") -> SiteTerms:
    """Return the terms in the bytes of a TOML file; UserError, which begins with `name`, for what
    is none: one mistake at a time."""
    try:
        found = msgspec.toml.decode(data, type=_File)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UserError(f"{name}: {error}; see the tables of murmurec edge --help") from None
    if len(set(found.lists.models)) < len(found.lists.models):
        raise UserError(f"{name}: [lists] models: names a model twice; give each once")
    scale = _checked(name, "[reports]", lambda: Scale(*found.reports.scale))
    feedback = _checked(name, "", lambda: FeedbackTypes.parse(found.feedback, scale))
    mechanism = _checked(name, "[reports]", lambda: registry.parse(found.reports.mechanism))
    return _checked(
        name,
        "",
        lambda: SiteTerms(
            budget=_budget(name, found.plan),
            mechanism=mechanism,
            scale=scale,
            feedback=feedback,
            report_seconds=found.reports.every_seconds,
            signed=found.reports.signed,
            read_again_days=found.lists.read_again_days,
            explore=found.lists.explore,
            models=found.lists.models,
        ),
    )


def _budget(name: str, plan: _Plan) -> PersonBudget:
    def made() -> PersonBudget:
        amounts = _exact("epsilon", plan.epsilon), _exact("delta", plan.delta)
        bare = PersonBudget(*amounts, plan.window_days or None)
        return PersonBudget(*amounts, plan.window_days or None, checked_plan(plan.purpose, bare))

    return _checked(name, "[plan]", made)


def _exact(name: str, number: _Number) -> Fraction:
    try:
        return Fraction(str(number))
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{name} {shorten(number)}: give a number, as 20, 0.5 or 1/2") from None


def _checked(name: str, place: str, make: Callable[[], _T]) -> _T:
    """Return what is made; UserError with the place of what cannot be."""
    try:
        return make()
    except ValueError as error:
        raise UserError(f"{name}: {place} {error}".replace("  ", " ")) from None
    except UserError as error:
        sentence = str(error)
        raise UserError(sentence if sentence.startswith(name) else f"{name}: {sentence}") from None
