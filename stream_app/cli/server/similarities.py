"""`murmurec similarities`: publish how items go together, noised once, and show what it cost."""

from __future__ import annotations

from dataclasses import asdict

from stream_app.cli.commands import option
from stream_app.cli.options import Cluster, JsonOption
from stream_app.cli.output import plural, print_json, say, show, table


def similarities(
    cluster: Cluster,
    epsilon: str | None = option(None, "Publish a table that costs a device this much.", "E"),
    delta: str = option("1e-6", "Beside epsilon.", "D"),
    as_json: JsonOption = False,
) -> None:
    """Show the newest table of similarities and what all tables cost a device, or publish one.

    A table is made from noisy sums over devices. It covers everything that a device reported,
    counts against similarity_budget before its noise is drawn, and is never drawn twice. Killed,
    the command sends the same bytes when run again.

    Example: murmurec similarities --epsilon 2 --delta 1e-6
    """
    if epsilon is None:
        _show(cluster, as_json)
    else:
        _publish(cluster, epsilon, delta, as_json)


def _publish(cluster: Cluster, epsilon: str, delta: str, as_json: bool) -> None:
    from stream_app.cli.aggregator.campaign_outline import delta_from
    from stream_app.cli.catalogue_titles import catalogue_from
    from stream_app.cli.device.mechanism_options import positive_fraction
    from stream_app.operations.similarities.publication import publish as release

    exact, beside = positive_fraction("--epsilon", epsilon), delta_from(delta)
    session = cluster.session()
    entries = catalogue_from(session.connection, session.settings.topic_prefix).entries
    found = release(session, entries, exact, beside)
    done = "an earlier call drew it; its bytes are sent" if found.resumed else "published"
    sentence = (
        f"table {found.release} of cut {found.cut} over {plural(found.items, 'item')}: {done}; "
        f"epsilon {found.epsilon:.4g} at delta {found.delta:g} for everything that a device "
        f"reported, {found.spent:.4g} with all tables so far"
    )
    show(asdict(found), [sentence], as_json=as_json)


def _show(cluster: Cluster, as_json: bool) -> None:
    """Print the newest table by domain, and what all tables so far cost a device."""
    from stream_app.operations.similarities.publication import shown

    found = shown(cluster.session())
    if as_json:
        print_json(asdict(found))
        return
    if found.release:
        say(
            f"table {found.release} of cut {found.cut}: epsilon {found.epsilon:.4g} at delta "
            f"{found.delta:g} for everything that a device reported, {found.bytes:,} bytes"
        )
        rows = [
            (each.name or "(none)", str(each.items), str(each.links_within), str(each.links_beyond))
            for each in found.domains
        ]
        table(("domain", "items", "links within", "to other domains"), rows)
    else:
        say("no table is published: murmurec similarities --epsilon E")
    say(
        f"{plural(found.counted, 'release')} spent epsilon {found.spent:.4g} of {found.budget:g} "
        "(similarity_budget, at delta 1e-6)"
    )
