"""The options of `murmurec demo` as one value."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from stream_app.cli.device.mechanism_options import EpsilonOption, MechanismOption, ScaleOption
from stream_app.cli.options import writable
from stream_app.errors import UsageError


@dataclass(frozen=True)
class DemoOptions:
    """The data, the mechanism, the worker and the output of a demo."""

    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Ratings of your own (default: synthetic ratings)."),
    ] = None
    mode: Annotated[
        str | None,
        typer.Option(
            "--mode",
            metavar="MODE",
            help="local; split or central: one campaign, --epsilon for a person (default "
            "privacy_mode).",
        ),
    ] = None
    seconds: Annotated[float, typer.Option(metavar="S", help="Duration of the replay.")] = 60.0
    mechanism: MechanismOption = "rr"
    epsilon: EpsilonOption = None
    model: Annotated[str | None, typer.Option(help="hybrid, sketch, dense, ...")] = None
    scale: ScaleOption = None
    ratings: Annotated[
        int,
        typer.Option(min=1000, max=100_000_000, metavar="N", help="Number of synthetic ratings."),
    ] = 300_000
    plain: Annotated[bool, typer.Option("--plain", help="Plain lines, no live table.")] = False
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep broker, worker and page up until Ctrl-C.")
    ] = False
    open_page: Annotated[
        bool, typer.Option("--open", help="Open the page in a browser; implies --keep.")
    ] = False
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the figures here.")
    ] = None

    @property
    def stays(self) -> bool:
        """Whether everything is kept up until Ctrl-C."""
        return self.keep or self.open_page

    def check(self) -> None:
        """Refuse values out of range, and a place that cannot be written."""
        if self.data is None and self.scale is not None:
            raise UsageError(
                "--scale: the synthetic ratings are on 1 5 1; give it with --data FILE"
            )
        if not 1 <= self.seconds <= 86_400:  # NaN is not, either
            raise UsageError(f"--seconds {self.seconds:g}: give 1 to 86400")
        if self.json_file is not None:
            writable(self.json_file)
