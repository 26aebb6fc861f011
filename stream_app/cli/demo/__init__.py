"""`murmurec demo`: from a rating on a device to a recommendation, on a real Kafka.

run             set up, replay the ratings, compare with the log, report
setup           broker, topics, worker, devices, catalogue
worker          the worker as a process of its own, watched over HTTP
gateway         the gateway as a process of its own: the page, and what it lets a visitor choose
processes       processes that end with the demo
ground_truth    predictions compared with the true ratings, which only a demo knows
query_load      a process that sends queries while the devices rate
view            the live table, or plain lines
lists           lists of two users while the demo runs, beside those with privacy off
quality         lists compared with later likes that are never sent, and with popular items
twin            the same users with privacy off: lists from their true ratings
sample_answers  recommendations to three users, beside their own ratings
campaign        the demo of a campaign: contributions instead of ratings
report          the figures: as JSON, and whether every rating is accounted for
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_app.cli.device.mechanism_options import (
    EpsilonOption,
    MechanismOption,
    ScaleOption,
    given_by_user,
    is_campaign,
)
from stream_app.cli.options import (
    BootstrapOption,
    ConfigOption,
    KafkaOption,
    settings_from,
    writable,
)
from stream_app.errors import UsageError


def demo(
    context: typer.Context,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Ratings of your own (default: synthetic ratings)."),
    ] = None,
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode",
            metavar="MODE",
            help="local; split or central: one campaign, --epsilon for a person (default "
            "privacy_mode).",
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(metavar="S", help="Duration of the replay.")] = 60.0,
    mechanism: MechanismOption = "rr",
    epsilon: EpsilonOption = None,
    model: Annotated[str | None, typer.Option(help="hybrid, sketch, dense, ...")] = None,
    scale: ScaleOption = None,
    ratings: Annotated[
        int,
        typer.Option(min=1000, max=100_000_000, metavar="N", help="Number of synthetic ratings."),
    ] = 300_000,
    plain: Annotated[bool, typer.Option("--plain", help="Plain lines, no live table.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep broker, worker and page up until Ctrl-C.")
    ] = False,
    open_page: Annotated[
        bool, typer.Option("--open", help="Open the page in a browser; implies --keep.")
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the figures here.")
    ] = None,
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    kafka: KafkaOption = None,
) -> None:
    """Start Kafka, a worker and a page, simulate a population of devices, recommend.

    Example: murmurec demo --data ml-1m.zip --epsilon 1
    """
    from stream_app.cli.demo.run import DemoOptions, run, run_sums

    if data is None and scale is not None:
        raise UsageError("--scale: the synthetic ratings are on 1 5 1; give it with --data FILE")
    if not 1 <= seconds <= 86_400:  # NaN is not, either
        raise UsageError(f"--seconds {seconds:g}: give 1 to 86400")
    if json_file is not None:
        writable(json_file)
    settings = settings_from(config, bootstrap, None, kafka, model=model, log_format="json")
    options = DemoOptions(
        data,
        seconds,
        mechanism,
        epsilon,
        scale,
        ratings,
        plain,
        keep or open_page,
        open_page,
        json_file,
    )
    if is_campaign(mode, settings):
        _check_no_ratings(context)
        run_sums(
            options, settings.model_copy(update={"privacy_mode": mode or settings.privacy_mode})
        )
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
