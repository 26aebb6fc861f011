"""The terms of a site: what its accounts may spend, what is reported, and what its lists are.

    [plan]        epsilon = 20, delta = 1e-6, window_days = 365 (0: for life), for = "adaptive"
    [reports]     mechanism = "rr:5:2", every_seconds = 60, scale = [1, 5, 1], signed = false
    [feedback]    purchase = 5, view = "0.3 like"                 (`events.feedback_types`)
    [lists]       read_again_days = 90, explore = 0.05, models = ["local", "popular"],
                  least_people = 5

Every part may be left out. `for` is the mechanism that a budget is planned for; without it the
first release decides. An account keeps the terms on which it was enrolled; a change holds for later
ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

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


@dataclass(frozen=True)
class SiteTerms:
    """The terms of a site; see the module. `read_again_days`: after how long an item that was read
    may be shown again, None for never. `explore`: the share of a list for new items.
    `least_people`: how many people stand behind what visitors see of the site's own feedback."""

    budget: PersonBudget = field(default_factory=PersonBudget)
    mechanism: Mechanism = field(default_factory=lambda: registry.parse("rr:5:2"))
    scale: Scale = field(default_factory=Scale)
    feedback: FeedbackTypes = field(default_factory=FeedbackTypes)
    report_seconds: float = REPORT_SECONDS
    signed: bool = False
    read_again_days: float | None = None
    explore: float = 0.0
    models: tuple[str, ...] = ("local",)
    least_people: int = 5

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


class _Table(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    pass


class _Plan(_Table, frozen=True, rename={"purpose": "for"}):
    epsilon: Fraction = Fraction(20)
    delta: Fraction = Fraction(1, 10**6)
    window_days: Annotated[int, Meta(ge=0, lt=2**32)] = 365
    purpose: str = ""


class _Reports(_Table, frozen=True):
    mechanism: str = "rr:5:2"
    every_seconds: Annotated[float, Meta(ge=0.1, le=31 * 86_400)] = REPORT_SECONDS
    scale: tuple[float, float, float] = (1.0, 5.0, 1.0)
    signed: bool = False


class _Lists(_Table, frozen=True):
    read_again_days: Annotated[float, Meta(gt=0)] | None = None
    explore: Annotated[float, Meta(ge=0, le=0.5)] = 0.0
    models: Annotated[
        tuple[Annotated[str, Meta(pattern="^[a-z][a-z_-]{0,31}$")], ...],
        Meta(min_length=1, max_length=8),
    ] = ("local",)
    least_people: Annotated[int, Meta(ge=1)] = 5


class _File(_Table, frozen=True):
    plan: _Plan = _Plan()
    reports: _Reports = _Reports()
    feedback: dict[str, Any] = {}
    lists: _Lists = _Lists()


def read(path: Path) -> SiteTerms:
    """Return the terms in a TOML file; UserError with the file and one mistake."""
    try:
        data = path.expanduser().read_bytes()
        return _terms(msgspec.toml.decode(data, type=_File, dec_hook=_exact))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {error}; see the tables of murmurec edge --help") from None
    except (ValueError, UserError) as error:
        raise UserError(f"{path}: {error}") from None


def _terms(found: _File) -> SiteTerms:
    plan, reports, lists = found.plan, found.reports, found.lists
    if len(set(lists.models)) < len(lists.models):
        raise ValueError("[lists] models: names a model twice; give each once")
    scale = Scale(*reports.scale)
    budget = PersonBudget(plan.epsilon, plan.delta, plan.window_days or None)
    return SiteTerms(
        budget=replace(budget, plan=checked_plan(plan.purpose, budget)),
        mechanism=registry.parse(reports.mechanism),
        scale=scale,
        feedback=FeedbackTypes.parse(found.feedback, scale),
        report_seconds=reports.every_seconds,
        signed=reports.signed,
        read_again_days=lists.read_again_days,
        explore=lists.explore,
        models=lists.models,
        least_people=lists.least_people,
    )


def _exact(_: type, number: object) -> Fraction:
    try:
        return Fraction(str(number))
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{shorten(number)}: give a number, as 20, 0.5 or 1/2") from None
