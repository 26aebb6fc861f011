"""`murmurec aggregate`: a party of campaigns, which sums what devices contribute and adds its
noise, and its keys."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from stream_app.cli.commands import option
from stream_app.cli.options import Cluster, one_blas_thread, reached
from stream_app.cli.output import say

if TYPE_CHECKING:
    from stream_app.settings import Settings


class PartyName(StrEnum):
    """Which party: one of the two of a split campaign, or the trusted one alone."""

    a = "a"
    b = "b"
    central = "central"


def aggregate(
    cluster: Cluster,
    party: PartyName = option(..., "a or b: one of two; central: the only one, which is trusted."),
    folder: Path | None = option(None, "Where the keys are (default: keys in data_dir).", "FOLDER"),
    make_keys: bool = option(False, "Make the party's keys, once, and end."),
) -> None:
    """Sum what devices contribute, add noise, publish that alone; SIGTERM ends it cleanly.

    In split mode each of two parties runs one; neither can read a contribution. Ended anywhere and
    started again, it answers the same, to the byte. Plans and devices name the public half of its
    keys.

    Example: murmurec aggregate --party a --bootstrap localhost:9092
    """
    one_blas_thread()
    settings = cluster.settings()
    place = folder or settings.data_dir / "keys"
    if make_keys:
        _make_keys(place, str(party.value))
    else:
        _run(settings, place, str(party.value))


def _make_keys(folder: Path, name: str) -> None:
    from stream_app.aggregation import keys

    made = keys.make(folder, keys.Role(name))
    say(f"keys       {folder / f'{name}.key'}, readable by their owner alone; keep a copy")
    say(f"copies     need {name}.released beside them, as new as it is here")
    say(f"public     {made.public.hex()}")
    say(f"in         {folder / f'{name}.pub'}, for the plan and for the devices' configuration")


def _run(settings: Settings, folder: Path, name: str) -> None:
    import signal
    import threading

    from stream_app.aggregation.keys import load
    from stream_app.aggregation.party import Party
    from stream_app.aggregation.releases import ReleasesFile
    from stream_app.aggregation.round_topics import ContributionTopic, RoundTopic
    from stream_app.aggregation.service import serve
    from stream_app.kafka import acls, topic_checks

    own = load(folder / f"{name}.key")
    releases = ReleasesFile(folder / f"{name}.released")
    connection, names = reached(settings)
    acls.check(connection, acls.of_role("aggregator", names, ("campaigns",)), "aggregator")
    topic_checks.check_campaigns(connection, names)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    log = RoundTopic(connection, names.rounds)
    contributions = ContributionTopic(connection, names.contributions, ended.is_set)
    say(f"party {name} ({own.public.hex()}) answers on {names.rounds}")
    try:
        party = Party(own, releases)
        serve(party, log, contributions.read, contributions.read_on, ended.is_set, say)
    finally:
        contributions.close()
        log.close()
        releases.close()
