"""`murmurec replay`: sanitize and publish a file of ratings as a population of devices.

replay_options  the options, checked against each other
run        one run over a population, immediate or by epoch
cost       the largest spending of a run, before any noise is drawn
campaign   one run that contributes to a campaign, and sends no rating
outcome    the result of a run, as sentences and as a row of JSON
"""

from __future__ import annotations

import typer

from stream_app.cli.device.mechanism_options import is_campaign
from stream_app.cli.device.replay.replay_options import ReplayCommandOptions
from stream_app.cli.options import Cluster, JsonOption


def replay(
    context: typer.Context,
    cluster: Cluster,
    options: ReplayCommandOptions,
    as_json: JsonOption = False,
) -> None:
    """Sanitize a file of ratings and publish it in time order.

    An interrupted replay continues where it stopped; a finished replay is not published twice.

    Example: murmurec replay ml-1m.zip --speed 20000
    """
    settings = cluster.settings()
    if is_campaign(options.mode, settings):
        from stream_app.cli.device.replay.campaign import CampaignReplay, check_options

        check_options(context)
        mode = options.mode or settings.privacy_mode
        CampaignReplay(options, mode).run(settings, as_json=as_json)
        return
    from stream_app.cli.device.replay.run import replay_file

    options.check()
    replay_file(options, settings, as_json=as_json)
