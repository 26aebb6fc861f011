"""`murmurec keys` and `murmurec aggregate`: the keys of a party of campaigns, and the party, which
sums what devices contribute and adds its noise."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from stream_app.cli.commands import option
from stream_app.cli.options import (
    Cluster,
    ConfigOption,
    one_blas_thread,
    reached,
    settings_from,
    shared,
)
from stream_app.cli.output import say

if TYPE_CHECKING:
    from stream_app.settings import Settings


class PartyName(StrEnum):
    """Which party: one of the two of a split campaign, or the trusted one alone."""

    a = "a"
    b = "b"
    central = "central"


PartyOption = Annotated[
    PartyName, shared("a or b: one of two; central: the only one, which is trusted.")
]
FolderOption = Annotated[
    Path | None, shared("Where the keys are (default: keys in data_dir).", "FOLDER")
]


def keys(
    party: PartyOption,
    make: bool = option(False, "Make them, once."),
    folder: FolderOption = None,
    config: ConfigOption = None,
) -> None:
    """Print the public half of a party's keys, which plans and devices name; or make the keys.

    Example: murmurec keys --party a --make
    """
    from stream_app.aggregation import keys

    place = keys_folder(folder, config)
    if not make:
        say(keys.load(place / f"{party}.key").public.hex())
        return
    made = keys.make(place, keys.Role(party))
    say(f"keys       {place / f'{party}.key'}, readable by their owner alone; keep a copy")
    say(f"copies     need {party}.released beside them, as new as it is here")
    say(f"public     {made.public.hex()}")
    say(f"in         {place / f'{party}.pub'}, for the plan and for the devices' configuration")


def keys_folder(folder: Path | None, config: Path | None) -> Path:
    """Return the folder of the keys."""
    return folder or settings_from(config).data_dir / "keys"


def aggregate(cluster: Cluster, party: PartyOption, folder: FolderOption = None) -> None:
    """Sum what devices contribute, add noise, publish that alone; SIGTERM ends it cleanly.

    In split mode each of two parties runs one; neither can read a contribution. Ended anywhere and
    started again, it answers the same, to the byte.

    Example: murmurec aggregate --party a --bootstrap localhost:9092
    """
    one_blas_thread()
    settings = cluster.settings()
    _run(settings, keys_folder(folder, cluster.config), str(party.value))


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
    say(f"party {name} ({own.public.hex()[:16]}...) answers on {names.rounds}")
    try:
        party = Party(own, releases)
        serve(party, log, contributions.read, contributions.read_on, ended.is_set, say)
    finally:
        contributions.close()
        log.close()
        releases.close()
