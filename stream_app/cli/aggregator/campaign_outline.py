"""`murmurec rounds plan`: the plan of a campaign, and what it costs everyone."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from stream_app.cli.commands import option
from stream_app.cli.device.mechanism_options import positive_fraction
from stream_app.cli.options import Cluster, campaign_keys, campaign_scope
from stream_app.cli.output import plural, refusing, say, table
from stream_app.errors import UsageError, UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stream_app.campaigns.plan import Campaign
    from stream_app.settings import Settings
    from stream_app.wire.ids import Item

_DELTA = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(?:[eE]-([0-9]{1,2}))?")
_LEAST_DELTA = Fraction(1, 10**15)
_ROLES = {1: ("central",), 2: ("a", "b")}


@dataclass(frozen=True)
class Terms:
    """What a plan is made from, as the command line gives it."""

    epsilon: str = option(..., "Of a person, for all stages together.", "E")
    delta: str = option("1e-6", "Beside epsilon.", "D")
    together: int = option(300, "Of the scope, for together.", "N", "--together-items")
    least: int = option(100, "Fewer contributions end a stage.", "N")
    most: int | None = option(None, "Contributions that a stage holds at least.", "N")
    deadline: int = option(18_000, "Cuts for which a stage is open.", "CUTS")
    number: int = option(1, "Above that of every earlier campaign.", "N")


def plan(
    cluster: Cluster,
    terms: Terms,
    scope: Path | None = option(
        None,
        "Public items, one per line, most popular first (env MURMUREC_CAMPAIGN_SCOPE).",
        "FILE",
    ),
    keys: list[Path] | None = option(
        None, "Public half of a party; twice, a and b, for two (env MURMUREC_CAMPAIGN_KEYS).", "PUB"
    ),
    output: Path = option(Path("plan.json"), "Where the plan goes.", "FILE", "-o", "--output"),
) -> None:
    """Plan a campaign: its stages, their noise, and what they cost a person in all of them.

    The scope must not come from the ratings that it is to hide; devices pin the same file.

    Example: murmurec rounds plan --epsilon 1 --scope items.txt --keys a.pub --keys b.pub
    """
    settings = cluster.settings()
    _check_order(keys)
    public = campaign_keys(settings, keys)
    _check_mode(settings, public)
    items = _items(campaign_scope(settings, scope))
    made = planned(terms, items, public, signed=settings.signed)
    write(output, made)
    show(made, settings.cut_seconds)
    say(f"plan in {output}; murmurec rounds begin {output} begins it")


def planned(
    terms: Terms, items: Sequence[Item], keys: tuple[str, ...], *, signed: bool = False
) -> Campaign:
    """Return the campaign, which every part of this release follows; UsageError for terms out of
    range or that do not fit together."""
    from stream_app.campaigns.planning import Outline, check_budget
    from stream_app.campaigns.planning import plan as campaign_of
    from stream_app.wire.campaigns.plan import decode_plan, encode_plan
    from stream_app.wire.campaigns.round_log import Planned, encode_round
    from stream_app.wire.limits import MAX_SEQ

    if not 1 <= terms.number <= MAX_SEQ:
        raise UsageError(f"--number {terms.number}: give 1 to {MAX_SEQ}; nothing was written")
    with refusing(UsageError, "no plan: {}; nothing was written".format):
        outline = Outline(
            positive_fraction("--epsilon", terms.epsilon),
            delta_from(terms.delta),
            _parties(len(keys)),
            together_items=terms.together,
            least=terms.least,
            most=terms.most,
            deadline_cuts=terms.deadline,
        )
        # Through its bytes: only they are checked against every range of the wire.
        found = campaign_of(outline, items, terms.number, keys, signed=signed)
        made = decode_plan(encode_plan(found))
        encode_round(Planned(made))
        check_budget(made)
    return made


def delta_from(text: str) -> Fraction:
    """Return the exact delta in a text, such as 1e-6; UsageError for one out of range."""
    found = _DELTA.fullmatch(text.strip())
    value = Fraction(found[1]) / 10 ** int(found[2] or 0) if found else Fraction(0)
    if not _LEAST_DELTA <= value < 1:
        raise UsageError(
            f"--delta {text[:40]}: give a number from {float(_LEAST_DELTA):g} to below 1, as 1e-6"
        )
    return value


def write(path: Path, campaign: Campaign) -> None:
    """Write the plan as readable JSON, whole or not at all."""
    import msgspec

    from stream_app.kafka import durable_file
    from stream_app.wire.campaigns.plan import encode_plan

    if path.is_dir():
        raise UserError(f"{path}: cannot be written (it is a folder); name a file")
    body = msgspec.json.format(encode_plan(campaign), indent=1) + b"\n"
    try:
        durable_file.replace(path, body, durable_file.SHARED)
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({error.strerror})") from None


def show(campaign: Campaign, cut_seconds: float) -> None:
    """Print the stages of a campaign and what they cost a person."""
    from math import sqrt

    from stream_app.campaigns.planning import certificate

    columns = ("stage", "kind", "integers", "bytes", "bound", "sigma", "share", "most")
    rows = [
        (
            str(index),
            stage.kind,
            f"{stage.size:,}",
            f"{contribution_bytes(campaign, index):,}",
            f"{stage.bound:,}",
            f"{sqrt(stage.variance):,.1f}",
            f"{float(stage.share):.2%}",
            f"{stage.most:,}",
        )
        for index, stage in enumerate(campaign.stages)
    ]
    parties = "two parties, each with this noise" if campaign.parties == 2 else "one party"
    say(f"campaign {campaign.number}: {plural(len(campaign.scope), 'item')}, {parties}")
    table(columns, rows)
    stage = campaign.stages[0]
    say(
        f"a stage is open for {plural(stage.deadline_cuts, 'cut')} "
        f"({duration(stage.deadline_cuts * cut_seconds)}), and ends "
        f"without a sum below {plural(stage.least, 'contribution')}"
    )
    spent = certificate(campaign.stages).epsilon(campaign.delta)
    say(
        f"a person in every stage spends epsilon {float(spent):.6f} at delta "
        f"{float(campaign.delta):g} (proved); the plan allows {float(campaign.epsilon):g}"
    )


def duration(seconds: float) -> str:
    """Return `20 s`, `1.5 min`, `1 h`."""
    for limit, length, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / length:.3g} {unit}"
    return f"{seconds / 86_400:,.0f} days"


def contribution_bytes(campaign: Campaign, index: int) -> int:
    """Return the size of a record of this stage."""
    from stream_app.campaigns.sealing import box_bytes
    from stream_app.wire.campaigns.contribution import Contribution, encode_contribution
    from stream_app.wire.limits import DEVICE_BYTES

    boxes = [bytes(box_bytes(campaign, index, party)) for party in range(campaign.parties)]
    device = bytes(DEVICE_BYTES)
    return len(encode_contribution(Contribution(campaign.digest, index, device, tuple(boxes))))


def _items(path: Path) -> list[Item]:
    from producers.device.scope import contents, ordered_items
    from stream_app.wire.limits import MAX_SCOPE

    items = ordered_items(path, contents(path))
    if len(items) > MAX_SCOPE:
        raise UserError(
            f"{path}: {len(items):,} items, and a campaign is over {MAX_SCOPE:,} at most; give a "
            "shorter list"
        )
    return items


def _parties(keys: int) -> Literal[1, 2]:
    if keys > 2:
        raise UsageError(f"--keys: {keys} keys; a campaign has one party (central) or two (a, b)")
    return 2 if keys == 2 else 1


def _check_order(files: Sequence[Path] | None) -> None:
    """Refuse files that `--make-keys` named, in another order than that of the parties."""
    names = tuple(path.name for path in files or ())
    known = {f"{role}.pub" for roles in _ROLES.values() for role in roles}
    expected = tuple(f"{role}.pub" for role in _ROLES.get(len(names), ()))
    if expected and set(names) <= known and len(set(names)) == len(names) and names != expected:
        raise UsageError(
            f"--keys {' '.join(names)}: give central.pub for one party, or a.pub, then b.pub"
        )


def _check_mode(settings: Settings, keys: Sequence[str]) -> None:
    """Refuse another number of parties than the deployment's."""
    parties = {"central": 1, "split": 2}.get(settings.privacy_mode, len(keys))
    if parties != len(keys):
        raise UsageError(
            f"--keys: {plural(len(keys), 'key')}, and privacy_mode {settings.privacy_mode} has "
            f"{parties}: the workers would withdraw the campaign"
        )
