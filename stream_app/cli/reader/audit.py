"""`murmurec audit`: claims attacked, on the topics of a deployment and in its code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stream_app.cli.commands import Commands, option
from stream_app.cli.options import AllowOption, Cluster, JsonOption, reached
from stream_app.cli.output import print_json, progress, refusing, say, table
from stream_app.errors import UsageError, UserError

if TYPE_CHECKING:
    from consumers.audit import Finding, PublicConfiguration
    from stream_app.settings import Settings

app = Commands(
    help="Test claims from outside, or with all but one known. Example: murmurec audit wire"
)


@app.command()
def wire(
    cluster: Cluster,
    scope: Path | None = option(None, "The public list of items, one id a line.", "FILE"),
    enrolled: Path | None = option(
        None,
        "Pseudonyms that were enrolled before the last two days, where that is public.",
        "FILE",
    ),
    canary: list[str] | None = option(
        None,
        "A device of your own that has rated nothing, or every item at this level index; "
        "repeatable.",
        "HEX[:LEVEL]",
    ),
    budget: float = option(20.0, "Epsilon of a whole person, in public.", "E"),
    delta: float = option(1e-6, "Delta of that budget.", "D"),
    rounds: int = option(1, "How often a cell may be reported.", "N"),
    rotate_every: int | None = option(
        None, "Epochs between two turns of an item; else found.", "N"
    ),
    memory: int = option(
        500,
        "Keep so much of the log; of a longer one a random share of the accounts is "
        "looked at, and the results are partial. The checks take up to 12 times as much.",
        "MB",
    ),
    alpha: float = option(1e-4, "Probability of accusing an honest deployment.", "P"),
    allow: AllowOption = None,
    as_json: JsonOption = False,
) -> None:
    """Read the topics from the beginning and test claim by claim. Exit code 1: one is violated.

    Given only the broker and what is public. A measurement is no guarantee: it can show that a
    claim is false, not that it is true.

    Example: murmurec audit wire --scope items.txt
    """
    from consumers.audit import audit_observed, observe, violated
    from consumers.audit.campaigns.checks import Joined, campaign_findings
    from consumers.audit.topic_reading import contributions, read_rounds, read_topics

    if not 1 <= memory <= 1_000_000:
        raise UsageError(f"--memory {memory}: give 1 to 1000000 MB")
    settings = cluster.settings(allow=allow)
    options = {
        "budget": budget,
        "delta": delta,
        "rounds": rounds,
        "alpha": alpha,
        "rotate_every": rotate_every,
    }
    public = _public(settings, scope, enrolled, canary or [], options)
    connection, topics = reached(settings)
    with progress("reading") as advance:
        observed = observe(read_topics(connection, topics, advance), public, memory * 1_000_000)
    rounds_log, joined = read_rounds(connection, topics), Joined(observed.sample)
    with progress("campaigns") as advance, contributions(connection, topics) as read:
        of_campaigns = list(campaign_findings(rounds_log, read, advance, joined))
    observed = replace(observed, contributed=joined.found)
    with progress("checking") as advance:
        findings = audit_observed(observed, public, advance, of_campaigns)
    _show(findings, alpha, as_json=as_json, accounts=str(observed.sample))
    if observed.sample.halvings and not as_json:
        say(
            f"partial: the log is longer than --memory {memory} holds, so {observed.sample} "
            "accounts were looked at, taken by chance, each with all its records; give more"
        )
    _refuse(violated(findings), findings)


@app.command()
def canary(
    cluster: Cluster,
    canary: list[str] | None = option(
        None,
        "A device on the topic, as of audit wire. Else devices of this release, who send nothing.",
        "HEX[:LEVEL]",
    ),
    reports: int = option(10_000, "Of each mechanism, by devices of this release.", "N"),
    alpha: float = option(1e-4, "Probability of accusing an honest device.", "P"),
    metrics: Path | None = option(None, "Write what was found, for Prometheus.", "FILE"),
    allow: AllowOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bound epsilon from below by devices of known ratings. Exit code 1: a claim is violated.

    Run any device program under a --prefix of its own, whose topics no worker reads, with ratings
    that you know, and name its pseudonyms. A measurement can show that a claim is false, not true.

    Example: murmurec audit canary --reports 100000
    """
    from consumers.audit import observe, violated
    from consumers.audit.canary_check import canary_findings
    from consumers.audit.observed import Record, Source
    from consumers.audit.topic_reading import read_topics
    from producers.fleet.canaries import released
    from stream_app.cli.reader.audit_metrics import write

    if not 100 <= reports <= 1_000_000:
        raise UsageError(f"--reports {reports}: give 100 to 1000000")
    settings = cluster.settings(allow=allow)
    public = _public(settings, None, None, canary or [], {"alpha": alpha})
    if canary:
        connection, topics = reached(settings)
        with progress("reading") as advance:
            observed = observe(read_topics(connection, topics, advance), public)
    else:
        sent, rated = released(public.mechanisms, reports)
        public = replace(public, partitions=1, canaries=rated)
        observed = observe(
            (Record(Source.RATINGS, 0, n, 0, m.key, m.value) for n, m in enumerate(sent)), public
        )
    findings = canary_findings(observed, public)
    if not any(finding.figures for finding in findings):
        raise UserError(
            "no reports of two canaries of different ratings under one mechanism: nothing was "
            "tested; name them with --canary, and their topics with --prefix"
        )
    if metrics is not None:
        write(metrics, findings, public.mechanisms)
    _show(findings, alpha, as_json=as_json)
    _refuse(violated(findings), findings)


@app.command()
def campaign(
    epsilon: str = option("2", "What a person spends: 2, 0.5 or 1/2.", "E"),
    delta: float = option(1e-6, "Delta of that.", "D"),
    mode: str = option("split", "central, or split: one of two parties is curious.", "MODE"),
    items: int = option(12, "Items of the scope.", "N"),
    runs: int = option(300, "Campaigns with the person, and as many without.", "N"),
    false_devices: bool = option(False, "Attack the proofs of two parties instead, N random ones."),
    as_json: JsonOption = False,
) -> None:
    """Attack whole campaigns, knowing all but one person. Exit code 1: a claim is violated.

    Devices, boxes, parties and their noise are those of this release, with a small population that
    is made up and noise from the operating system. The attacker owns the log, every other device
    and one of two parties, and compares exact likelihoods. A measurement is no guarantee: the proof
    is murmurec certify.

    Example: murmurec audit campaign --epsilon 2 --runs 1000
    """
    if false_devices:
        passed = _attacked("false_devices", "Options", (items, runs), as_json=as_json).passed
        if passed:
            raise UserError(f"{len(passed)} false devices were counted, the first: {passed[0]}")
        return
    options = epsilon, delta, mode, items, runs
    found = _attacked("campaign", "CampaignOptions", options, as_json=as_json)
    _refuse(found.audit.violated, found.audit.findings)


def _attacked(name: str, kind: str, options: tuple[Any, ...], *, as_json: bool) -> Any:
    """Return and print what an attack measured; `kind` are its options."""
    from murmurec.common import research

    attack = research(f"commands.audits.{name}")
    with progress("attacking") as advance:
        found = attack.measured(getattr(attack, kind)(*options), advance)
    found.show(as_json=as_json)
    return found


def _public(
    settings: Settings,
    scope: Path | None,
    enrolled: Path | None,
    canaries: list[str],
    options: dict[str, Any],
) -> PublicConfiguration:
    """Return the public configuration; raises UserError or UsageError for what is none."""
    from consumers.audit import PublicConfiguration
    from consumers.audit.configuration import canaries_from, items_in, pseudonyms_in
    from stream_app.privacy import registry

    with refusing(UsageError):
        mechanisms = tuple(registry.parse(name) for name in settings.mechanisms)
        return PublicConfiguration(
            mechanisms,
            partitions=settings.partitions,
            accept_tests=settings.accept_tests,
            scope=None if scope is None else items_in(scope),
            enrolled=None if enrolled is None else frozenset(pseudonyms_in(enrolled)),
            canaries=canaries_from(canaries, mechanisms),
            scope_key=settings.hash_seed,
            **options,
        )


def _refuse(broken: Sequence[Any], findings: Sequence[Any]) -> None:
    """Raise UserError where a claim is violated."""
    if broken:
        raise UserError(
            f"{len(broken)} of {len(findings)} claims violated, the first: {broken[0].claim} "
            f"({broken[0].measured})"
        )


def _show(findings: list[Finding], alpha: float, *, as_json: bool, **more: str) -> None:
    """Print one line a claim and the verdict, or all as JSON."""
    if as_json:
        rows = [finding.row() for finding in findings]
        print_json({"alpha": alpha, **more, "findings": rows}, indent=1)
        return
    table(
        ("verdict", "claim", "measured"),
        [(finding.verdict.value, finding.claim, finding.measured) for finding in findings],
    )
    tests = sum(finding.p_value is not None for finding in findings)
    say(
        f"{len(findings)} claims; an honest deployment is accused with probability {alpha:g} at "
        f"most by the {tests} statistical tests together; what others write in its name counts "
        "against it"
    )
