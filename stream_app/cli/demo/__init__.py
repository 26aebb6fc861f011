"""`murmurec demo`: from a rating on a device to a recommendation, on a real Kafka.

run           set up, replay the ratings, compare with the log, report
campaign_run  the demo of a campaign: contributions instead of ratings
"""

from __future__ import annotations

import typer

from stream_app.cli.demo.demo_options import DemoOptions
from stream_app.cli.device.mechanism_options import given_by_user, is_campaign
from stream_app.cli.options import BootstrapOption, ConfigOption, KafkaOption, settings_from
from stream_app.errors import UsageError


def demo(
    context: typer.Context,
    options: DemoOptions,
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    kafka: KafkaOption = None,
) -> None:
    """Start Kafka, a worker and a page, simulate a population of devices, recommend.

    Example: murmurec demo --data ml-1m.zip --epsilon 1
    """
    from stream_app.cli.demo.run import run, run_sums

    options.check()
    settings = settings_from(config, bootstrap, kafka=kafka, model=options.model, log_format="json")
    if is_campaign(options.mode, settings):
        _check_no_ratings(context)
        mode = options.mode or settings.privacy_mode
        run_sums(options, settings.model_copy(update={"privacy_mode": mode}))
    else:
        run(options, settings)


def _check_no_ratings(context: typer.Context) -> None:
    """Refuse options of a demo that sends ratings."""
    names = ("seconds", "mechanism", "model", "keep", "open_page")
    given = [f"--{name.removesuffix('_page')}" for name in names if given_by_user(context, name)]
    if given:
        raise UsageError(
            f"{', '.join(given)}: not with --mode split or central, where no rating is sent"
        )
