"""`murmurec audit campaign`: the plan that the options ask for, and the table of its stages."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

from research.audits.campaign import CampaignAudit, Subject, audit, crowd
from stream_app.campaigns.plan import Campaign
from stream_app.campaigns.planning import Outline, plan
from stream_app.cli.device.mechanism_options import positive_fraction
from stream_app.cli.output import Advance, print_json, say, table
from stream_app.errors import UsageError
from stream_app.privacy.randomness import SystemSource

PEOPLE = 4
_MODES: dict[str, Literal[1, 2]] = {"central": 1, "split": 2}
_MOST_ITEMS = 200


class CampaignOptions(NamedTuple):
    """The options of the command."""

    epsilon: str
    delta: float
    mode: str
    items: int
    runs: int


@dataclass(frozen=True)
class Shown:
    """An audit and how it is shown."""

    audit: CampaignAudit

    def show(self, *, as_json: bool) -> None:
        """Print the audit."""
        if as_json:
            print_json(asdict(self.audit), indent=1)
            return
        _show(self.audit)


def measured(options: CampaignOptions, progress: Advance) -> Shown:
    """Return the audit; raises UsageError for options that make no campaign."""
    try:
        source = SystemSource()
        subject = Subject(_plan(options), crowd(options.items, PEOPLE, source))
        return Shown(audit(subject, options.runs, source, progress=progress))
    except ValueError as error:
        raise UsageError(str(error)) from None


def _plan(options: CampaignOptions) -> Campaign:
    if options.mode not in _MODES:
        raise UsageError(f"--mode {options.mode}: choose central or split")
    if not 2 <= options.items <= _MOST_ITEMS:
        raise UsageError(f"--items {options.items}: give 2 to {_MOST_ITEMS}")
    epsilon = positive_fraction("--epsilon", options.epsilon)
    if not 1e-15 <= options.delta < 1:
        raise UsageError(f"--delta {options.delta:g}: give 1e-15 to 1")
    delta = Fraction(str(options.delta))
    outline = Outline(epsilon, delta, _MODES[options.mode])
    return plan(outline, range(options.items))


def _show(found: CampaignAudit) -> None:
    rows = [
        (
            each.kind,
            f"{each.size:,}",
            f"{each.epsilon:.3f}",
            f"{each.epsilon_bound:.3f}",
            f"{each.auc:.3f}",
            f"{each.auc_theory:.3f}",
            f"{100 * each.used:.0f} %",
            f"{each.noise:.3f}",
        )
        for each in found.stages
    ]
    rows.append(
        (
            "all",
            f"{sum(each.size for each in found.stages):,}",
            f"{found.epsilon:.3f}",
            f"{found.epsilon_bound:.3f}",
            f"{found.auc:.3f}",
            f"{found.auc_theory:.3f}",
            "",
            "",
        )
    )
    columns = (
        *("stage", "integers", "epsilon", "shown, at least", "AUC", "AUC in theory"),
        *("of the bound", "noise / plan"),
    )
    title = f"{found.mode}, {found.runs} campaigns with the person and {found.runs} without"
    table(columns, rows, title=title)
    table(
        ("verdict", "claim", "measured"),
        [
            ("ok" if each.holds else "violated", each.claim, each.measured)
            for each in found.findings
        ],
    )
    say(
        f"epsilon at delta {found.delta:g}: {found.epsilon:g} stated; shown to be at least "
        f"{found.epsilon_bound:.2f}, or {found.epsilon_curve:.2f} if the curve is Gaussian (each "
        f"right in 95 of 100 audits); about {found.epsilon_estimate:.2f} by the estimate from all "
        "runs. A measurement can show that a claim is false, not that it is true"
    )
