"""`murmurec demo`: from a rating on a device to a recommendation, on a real Kafka.

run           set up, replay the ratings, compare with the log, report
campaign_run  the demo of a campaign: contributions instead of ratings
"""

from __future__ import annotations

import typer

from stream_app.cli.demo.demo_options import DemoOptions
from stream_app.cli.device.mechanism_options import given_by_user, is_campaign
from stream_app.cli.options import (
    BootstrapOption,
    ConfigOption,
    KafkaOption,
    one_blas_thread,
    settings_from,
)
from stream_app.errors import UsageError


def demo(
    context: typer.Context,
    options: DemoOptions,
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    kafka: KafkaOption = None,
) -> None:
    """Start Kafka, a worker and a page, simulate a population of devices, recommend.

    Example: murmurec demo --epsilon 1 --open
    """
    one_blas_thread()
    from stream_app.cli.demo.campaign_run import run_campaigns
    from stream_app.cli.demo.run import run_reports

    options.check()
    settings = settings_from(config, bootstrap, kafka=kafka, log_format="json")
    if is_campaign(options.mode, settings):
        if given_by_user(context, "seconds"):
            raise UsageError("--seconds: not with --mode split or central, where no rating is sent")
        mode = options.mode or settings.privacy_mode
        run_campaigns(options, settings.model_copy(update={"privacy_mode": mode}))
    else:
        run_reports(options, settings.model_copy(update={"privacy_mode": "local"}))
