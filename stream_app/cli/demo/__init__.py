"""`murmurec demo`: from a rating on a device to a recommendation, on a real Kafka.

run           set up, replay the ratings, compare with the log, report
campaign_run  the demo of a campaign: contributions instead of ratings
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
    file: Annotated[
        Path | None,
        typer.Argument(metavar="[FILE]", help="Ratings of your own (default: synthetic ratings)."),
    ] = None,
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    kafka: KafkaOption = None,
) -> None:
    """Start Kafka, a worker and a page, simulate a population of devices, recommend.

    The two people that it shows have lists near the middle of all.

    Example: murmurec demo ml-1m.zip --epsilon 1
    """
    one_blas_thread()
    from stream_app.cli.demo.campaign_run import run_campaigns
    from stream_app.cli.demo.run import run_reports

    options.check(file)
    settings = settings_from(config, bootstrap, kafka=kafka, model=options.model, log_format="json")
    if file is not None:
        _refuse(context, ("ratings",), "not with a FILE, which has its own")
    if is_campaign(options.mode, settings):
        names = ("seconds", "mechanism", "model")
        _refuse(context, names, "not with --mode split or central, where no rating is sent")
        mode = options.mode or settings.privacy_mode
        run_campaigns(options, file, settings.model_copy(update={"privacy_mode": mode}))
    else:
        run_reports(options, file, settings.model_copy(update={"privacy_mode": "local"}))


def _refuse(context: typer.Context, names: tuple[str, ...], rule: str) -> None:
    given = [f"--{name}" for name in names if given_by_user(context, name)]
    if given:
        raise UsageError(f"{', '.join(given)}: {rule}")
