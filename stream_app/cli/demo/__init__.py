"""`murmurec demo`: the whole way from a rating on a device to a recommendation, on a real Kafka.

run        the course: set the stage, let the devices rate, compare with the log, report
stage      broker, topics, worker, devices, titles
worker     the worker as a process of its own, and what it shows over HTTP
shadow     the check that only a demo can make: the same log, beside the true ratings
asker      somebody who asks for recommendations while the devices rate
view       the live table, or plain lines
tastes     what three users are recommended, beside what their devices know of them
report     what was measured, for people and as JSON
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_app.cli.device.mechanism_options import EpsilonOption, MechanismOption, ScaleOption
from stream_app.cli.options import (
    BootstrapOption,
    ConfigOption,
    KafkaOption,
    settings_from,
    writable,
)
from stream_app.errors import UserError


def demo(
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Real ratings; default: a generated world."),
    ] = None,
    seconds: Annotated[
        float, typer.Option(min=1.0, help="How long the devices take to rate everything.")
    ] = 60.0,
    mechanism: MechanismOption = "rr",
    epsilon: EpsilonOption = None,
    index: Annotated[str, typer.Option(help="qolsh, exact or auto.")] = "qolsh",
    model: Annotated[str | None, typer.Option(help="sketch, literal, dense or hashing.")] = None,
    scale: ScaleOption = None,
    ratings: Annotated[int, typer.Option(min=1000, help="Size of the generated world.")] = 300_000,
    plain: Annotated[bool, typer.Option("--plain", help="Plain lines, no live table.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave broker and worker up until Ctrl-C.")
    ] = False,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write what was measured.")
    ] = None,
    config: ConfigOption = None,
    bootstrap: BootstrapOption = None,
    kafka: KafkaOption = None,
) -> None:
    """Start Kafka and a worker, let a population of devices rate, ask for recommendations.

    Example: murmurec demo --data ml-1m.zip --epsilon 1
    """
    from stream_app.cli.demo.run import DemoOptions, run

    if data is None and scale is not None:
        raise UserError("--scale goes with --data: the generated world has its own, 1 5 1")
    if json_file is not None:
        writable(json_file)
    settings = settings_from(
        config, bootstrap, None, kafka, index=index, model=model, log_format="json"
    )
    run(
        DemoOptions(data, seconds, mechanism, epsilon, scale, ratings, plain, keep, json_file),
        settings,
    )
