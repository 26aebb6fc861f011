"""One run of `murmurec replay --mode split|central`: a population contributes to a campaign.

No rating is sent, under any noise: what leaves each device is one sealed vector a stage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import typer

from producers.campaign.terms import Pinned
from producers.datasets.load import load
from producers.device.pinned_scope import check_pin, read_ordered
from producers.fleet.campaigning import Fleet, StageProgress, under_way
from producers.identities import Identities
from producers.journal import Journal
from stream_app.aggregation.round_topics import RoundTopic
from stream_app.campaigns.planning import LARGEST_EPSILON
from stream_app.campaigns.rounds import Phase, Rounds
from stream_app.cli.device import simulated_population as simulation
from stream_app.cli.device.mechanism_options import given_by_user, simulation_path, today
from stream_app.cli.device.publishers import check_copies, contributions_publisher_for, round_log
from stream_app.cli.device.wording import journal_notices
from stream_app.cli.options import campaign_keys, campaign_scope
from stream_app.cli.output import notice, plural, progress, show, status
from stream_app.errors import UsageError, UserError
from stream_app.settings import Settings
from stream_app.wire.campaigns.plan import Campaign
from stream_app.wire.limits import MAX_SCOPE

if TYPE_CHECKING:
    from stream_app.cli.device.replay import ReplayCommandOptions

_PARTIES = {"central": 1, "split": 2}
_OF_RATINGS = {
    "mechanism": "--mechanism",
    "epsilon": "--epsilon",
    "thinning": "--thinning",
    "emission": "--emission",
    "trust_catalogue": "--trust-catalogue",
    "rotate_every": "--rotate-every",
    "given_sample": "--sample",
    "speed": "--speed",
    "limit": "--limit",
    "test": "--test",
    "republish": "--republish",
}


def check_options(context: typer.Context) -> None:
    """Refuse options of a replay of ratings."""
    given = [option for name, option in _OF_RATINGS.items() if given_by_user(context, name)]
    if given:
        raise UsageError(
            f"{', '.join(given)}: not with --mode split or central, which sends no rating: the "
            "plan of the campaign gives noise and stages"
        )


@dataclass(frozen=True)
class Outcome:
    """What a run has done: the last step of each stage, and the delivery of its records."""

    rounds: Rounds
    steps: dict[int, StageProgress]
    sent: simulation.Sending

    @property
    def campaign(self) -> Campaign:
        """The campaign of the run."""
        assert self.rounds.campaign is not None
        return self.rounds.campaign

    @property
    def row(self) -> dict[str, Any]:
        """The figures as JSON names."""
        steps = self.steps.values()
        return {
            "campaign": self.campaign.number,
            "released": sum(each.phase is Phase.RELEASED for each in self.rounds.stages),
            "stages": [self._stage(index) for index in range(len(self.rounds.stages))],
            "epsilon": float(self.campaign.epsilon),
            "delta": float(self.campaign.delta),
            "contributions_accepted": self.sent.relay.publisher.accepted,
            "contributions_left_before": self.sent.left,
            "bytes": sum(each.bytes for each in steps),
            "seconds": round(self.sent.seconds, 3),
        }

    def _stage(self, index: int) -> dict[str, Any]:
        stage, step = self.rounds.stages[index], self.steps.get(index)
        return {
            "stage": index,
            "kind": stage.stage.kind,
            "phase": str(stage.phase),
            "counted": stage.contributions,
            "sent": 0 if step is None else step.sent,
            "sent_before": 0 if step is None else step.before,
            "over_budget": 0 if step is None else step.over,
            "late": 0 if step is None else step.late,
        }

    @property
    def sentences(self) -> Iterator[str]:
        """The figures in words."""
        if left := self.sent.left:
            yield f"{plural(left, 'contribution')} of an earlier run sent again, same bytes"
        for each in self.row["stages"]:
            yield (
                f"stage {each['stage']} ({each['kind']}): {each['phase']}, "
                f"{plural(each['counted'], 'contribution')} counted; {each['sent']:,} sent, "
                f"{each['sent_before']:,} by an earlier run, {each['over_budget']:,} without "
                f"budget, {each['late']:,} too late"
            )
        yield (
            f"{plural(self.sent.relay.publisher.accepted, 'contribution')} accepted, "
            f"{self.row['bytes'] / 1e6:,.1f} MB, in {self.sent.seconds:.1f} s; no rating was sent"
        )
        yield (
            f"campaign {self.campaign.number} costs each person epsilon "
            f"{float(self.campaign.epsilon):g} at delta {float(self.campaign.delta):g}, for "
            "everything that was ever rated"
        )

    def check(self) -> None:
        """Raise UserError for a campaign that ended without all of its sums."""
        ended = next((each for each in self.rounds.stages if each.aborted is not None), None)
        if ended is not None:
            raise UserError(
                f"campaign {self.campaign.number} ended at stage {ended.index} without a result "
                f"({ended.aborted}): no sum of this stage was or will be released"
            )


def replay_campaign(
    options: ReplayCommandOptions, mode: str, settings: Settings, *, as_json: bool
) -> None:
    """Contribute in the mode central or split until the campaign has ended, and print the outcome;
    UserError where it ended without all of its sums, or where a contribution was not accepted."""
    budget = options.budget
    public = campaign_keys(settings, options.keys)
    scope = campaign_scope(settings, options.scope)
    if len(public) != _PARTIES[mode]:
        raise UsageError(
            f"--keys: {plural(len(public), 'key')} given, and --mode {mode} has "
            f"{_PARTIES[mode]}, one of each party"
        )
    items, digest = read_ordered(scope, MAX_SCOPE)
    with status(f"reading {options.file}"):
        dataset = load(options.file, options.scale)
    path = simulation_path(settings, options.journal)
    publisher = contributions_publisher_for(settings, per_account=options.producer_per_account)
    with Journal.open(path, limits=options.limits) as journal, round_log(settings) as log:
        journal.check_kind(simulated=True)
        check_pin(journal, scope, digest, options.accept_scope, campaigns=True)
        pinned = Pinned(
            public,
            items,
            Fraction(LARGEST_EPSILON),
            settings.signed,
            settings.campaign_notice_seconds,
        )
        campaign = under_way(log.catch_up())
        identities = Identities(journal.key, signed=settings.signed)
        population = simulation.population_of(dataset, journal, identities)
        if journal.campaign_scope != digest:
            journal.pin_scope(digest, campaigns=True)
        enrolled = simulation.enrolled_population(journal, population.devices, budget, today())
        check_copies(settings, [journal], campaigns=True, trusted=options.trust_journal)
        _show_notices(journal, campaign, enrolled)
        with simulation.sending(journal, publisher, "contribution") as sent:
            fleet = Fleet(
                journal, population, pinned, publisher.topic, sent.relay, today,
                identities=identities,
            )  # fmt: skip
            outcome = _followed(fleet, sent, log)
    show(outcome.row, outcome.sentences, as_json=as_json)
    simulation.check_delivered(publisher, "contribution", "the next run")
    outcome.check()


def _show_notices(journal: Journal, campaign: Campaign, enrolled: str) -> None:
    for sentence in (*journal_notices(journal), enrolled):
        notice(sentence)
    notice(
        f"protected  everything that a person ever rated: epsilon {float(campaign.epsilon):g} "
        f"at delta {float(campaign.delta):g}"
    )
    notice("public     that each device takes part in each stage, with or without ratings")
    notice("sent       one sealed vector a device and stage; no rating")


def _followed(fleet: Fleet, sent: simulation.Sending, log: RoundTopic) -> Outcome:
    """Contribute until the campaign has ended."""
    steps: dict[int, StageProgress] = {}
    with progress("contributed") as advance:
        for step in fleet.follow(log):
            steps[step.stage] = step
            advance(step.done, step.total)
            if step.done == step.total:
                notice(_waiting(step))
    return Outcome(log.rounds, steps, sent)


def _waiting(step: StageProgress) -> str:
    """Return the sentence for the time, up to hours, in which a stage stays open."""
    return (
        f"stage {step.stage} ({step.kind}): {step.sent + step.before:,} of "
        f"{plural(step.total, 'device')} contributed; waiting until it has closed (murmurec rounds "
        "stage close ends it now)"
    )
