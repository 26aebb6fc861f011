"""`murmurec aggregate`: a party of campaigns, which sums contributions and adds its noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stream_app.cli.aggregator.party_keys import FolderOption, PartyOption, keys_folder
from stream_app.cli.options import Cluster, connection_from
from stream_app.cli.output import say

if TYPE_CHECKING:
    from pathlib import Path

    from stream_app.settings import Settings


def aggregate(
    cluster: Cluster,
    party: PartyOption,
    folder: FolderOption = None,
) -> None:
    """Sum what devices contribute, add noise, publish that alone; SIGTERM ends it cleanly.

    In split mode each of two parties runs one; neither can read a contribution. Ended anywhere and
    started again, it answers the same, to the byte.

    Example: murmurec aggregate --party a --bootstrap localhost:9092
    """
    settings = cluster.settings()
    _run(settings, keys_folder(folder, cluster.config), str(party.value))


def _run(settings: Settings, folder: Path, name: str) -> None:
    import signal
    import threading

    from stream_app.aggregation import keys
    from stream_app.aggregation.party import Party
    from stream_app.aggregation.releases import ReleasesFile
    from stream_app.aggregation.round_topics import ContributionTopic, RoundTopic
    from stream_app.aggregation.service import serve
    from stream_app.kafka import acls, clients, topic_checks
    from stream_app.wire import Topics

    own = keys.load(folder / f"{name}.key")
    releases = ReleasesFile(folder / f"{name}.released")
    connection, names = connection_from(settings), Topics(settings.topic_prefix)
    clients.describe_cluster(connection)
    acls.check(connection, acls.of_role("aggregator", names, ("campaigns",)), "aggregator")
    topic_checks.check_campaigns(connection, names)
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    log = RoundTopic(connection, names.rounds)
    contributions = ContributionTopic(connection, names.contributions, ended.is_set)
    say(f"party {name} ({own.public.hex()[:16]}...) answers on {names.rounds}")
    try:
        serve(Party(own, releases), log, contributions.read, ended.is_set, say)
    finally:
        contributions.close()
        log.close()
        releases.close()
