"""`murmurec rounds`: the campaign that is under way, and the owner's steps by hand."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stream_app.cli.aggregator.campaign_outline import plan as plan_command
from stream_app.cli.commands import Commands, option
from stream_app.cli.options import Cluster, JsonOption, campaign_keys, reached
from stream_app.cli.output import notice, print_json, refusing, say, table

if TYPE_CHECKING:
    from stream_app.aggregation.coordinator import Coordinator
    from stream_app.campaigns.plan import Campaign
    from stream_app.campaigns.rounds import StageState
    from stream_app.settings import Settings


class Step(StrEnum):
    """What the owner of a campaign does by hand."""

    open = "open"
    close = "close"
    abort = "abort"


app = Commands(
    help="Plan campaigns, begin and show them, open and close their stages. Example: murmurec "
    "rounds show"
)
app.command("plan")(plan_command)
_MOST_FILE = 4_000_000  # bytes of a plan


@app.command()
def show(cluster: Cluster, as_json: JsonOption = False) -> None:
    """Show the newest campaign and its stages.

    Example: murmurec rounds show
    """
    settings = cluster.settings()
    with _coordinator(settings) as coordinator:
        rounds = coordinator.log.catch_up()
    rows = [_row(stage) for stage in rounds.stages]
    if as_json:
        campaign = rounds.campaign
        keys = campaign and list(campaign.keys)
        print_json({"campaign": campaign and campaign.number, "keys": keys, "stages": rows})
    elif rounds.campaign is None:
        say("no campaign has begun")
    else:
        say(f"campaign {rounds.campaign.number}, epsilon {rounds.campaign.epsilon} for a person")
        roles = ("central",) if rounds.campaign.parties == 1 else ("a", "b")
        for role, key in zip(roles, rounds.campaign.keys, strict=True):
            say(f"party {role}: {key}")
        table(tuple(rows[0]), [_cells(row) for row in rows])
        if waits := _waits(rounds.current, roles):
            say(waits)
        if settings.campaign_keys not in ((), rounds.campaign.keys):
            notice(f"campaign_keys are others, {_short(settings.campaign_keys)}: see the plan's")


@app.command()
def begin(
    cluster: Cluster,
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="The plan, JSON.")],
    keys: list[Path] | None = option(
        None,
        "Public half of a party, a before b; without it the keys of the plan, or those of "
        "MURMUREC_CAMPAIGN_KEYS.",
        "PUB",
        "--keys",
        "--key",
    ),
) -> None:
    """Begin a campaign: write its plan to the log.

    Example: murmurec rounds begin plan.json
    """
    settings = cluster.settings()
    campaign = _read(plan, settings, keys)
    with _coordinator(settings) as coordinator:
        coordinator.begin(campaign)
    say(f"campaign {campaign.number} has begun; its plan is {campaign.digest.hex()}")
    if not campaign.is_signed:
        notice(
            "contributions are not signed (devices = open): whoever may write them can make up "
            "devices, so a sum is bounded by what is counted and not by enrolled accounts"
        )


@app.command()
def stage(
    cluster: Cluster,
    step: Annotated[Step, typer.Argument(metavar="STEP", help="open, close or abort.")],
) -> None:
    """Open the campaign's next stage, close the open one, or abort the campaign.

    Devices contribute to an open stage; the parties sum what was contributed to a closed one; the
    stage at which a campaign is aborted releases nothing.

    Example: murmurec rounds stage open
    """
    with _coordinator(cluster.settings()) as coordinator:
        say(_taken(coordinator, step))


def _taken(coordinator: Coordinator, step: Step) -> str:
    """Take a step of the owner, and return what it did."""
    from stream_app.wire.campaigns.round_log import AbortReason

    if step is Step.open:
        opened = coordinator.open_stage()
        return f"stage {opened.index} ({opened.stage.kind}) is open"
    if step is Step.close:
        closed = coordinator.close_stage()
        records = sum(closed.ends) - sum(closed.begins)
        return f"stage {closed.index} ({closed.stage.kind}) is closed with {records} records"
    coordinator.abort_stage(AbortReason.WITHDRAWN)
    return "the campaign has ended; what its earlier stages released stays released"


def _read(plan: Path, settings: Settings, keys: list[Path] | None) -> Campaign:
    """Return the plan in a file, with its keys; UserError for one that nobody would follow."""
    import msgspec

    from stream_app.campaigns.planning import check_budget, check_stages
    from stream_app.errors import UserError
    from stream_app.wire.campaigns.plan import decode_plan, encode_plan

    try:
        with plan.open("rb") as file:
            campaign = decode_plan(file.read(_MOST_FILE))
        if keys or not campaign.keys:
            public = campaign_keys(settings, keys)
            campaign = decode_plan(encode_plan(msgspec.structs.replace(campaign, keys=public)))
        if settings.signed:
            campaign = msgspec.structs.replace(campaign, signed=True)
    except OSError as error:
        raise UserError(f"{plan}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise UserError(f"{plan}: is not a plan: {error}; nothing was written") from None
    with refusing(UserError, lambda sentence: f"{plan}: {sentence}; nothing was written"):
        check_stages(campaign)
        check_budget(campaign)
    if settings.campaign_keys and settings.campaign_keys != campaign.keys:
        raise UserError(
            f"{plan}: names the keys {_short(campaign.keys)}, and campaign_keys are "
            f"{_short(settings.campaign_keys)}: workers and devices would not follow it; nothing "
            "was written"
        )
    if campaign.is_signed and not settings.signed:
        raise UserError(
            f"{plan}: counts signed contributions alone, and devices = open here, which sign none; "
            "set devices = signed, or plan again; nothing was written"
        )
    return campaign


def _short(keys: tuple[str, ...]) -> str:
    return " and ".join(f"{key[:16]}..." for key in keys)


@contextmanager
def _coordinator(settings: Settings) -> Iterator[Coordinator]:
    from stream_app.aggregation.coordinator import Coordinator
    from stream_app.aggregation.round_topics import ContributionTopic, RoundTopic
    from stream_app.kafka import topic_checks

    connection, names = reached(settings)
    partitions, stated = settings.partitions, settings.partitions_stated
    stated = topic_checks.is_of_log(connection, names, partitions) or stated
    topic_checks.check_campaigns(connection, names, partitions, stated=stated)
    with (
        closing(RoundTopic(connection, names.rounds)) as log,
        closing(ContributionTopic(connection, names.contributions, partitions=partitions)) as read,
    ):
        yield Coordinator(log, read, settings.campaign_notice_seconds)


def _waits(stage: StageState | None, roles: tuple[str, ...]) -> str:
    """Return for whom a closed stage waits; empty where it waits for no party."""
    silent = [] if stage is None else [roles[party] for party in stage.owing(len(roles))]
    if stage is None or not silent:
        return ""
    return (
        f"stage {stage.index} waits for party {' and '.join(silent)}: murmurec aggregate --party "
        f"{silent[0]} with the key above answers"
    )


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of a stage; the parties count contributions once it has closed."""
    waits = row["phase"] in {"planned", "open", "closed"}
    return tuple(
        "-" if waits and name == "contributions" else str(value) for name, value in row.items()
    )


def _row(stage: StageState) -> dict[str, Any]:
    return {
        "stage": stage.index,
        "kind": stage.stage.kind,
        "phase": str(stage.phase) if stage.aborted is None else f"aborted: {stage.aborted}",
        "contributions": stage.contributions,
        "answered": len(stage.opened),
        "shares": len(stage.shares),
    }
