"""The options of `murmurec demo` as one value."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from stream_app.cli.commands import option
from stream_app.cli.device.mechanism_options import EpsilonOption, MechanismOption, ScaleOption
from stream_app.cli.options import writable
from stream_app.errors import UsageError


@dataclass(frozen=True)
class DemoOptions:
    """The mechanism, the worker and the output of a demo."""

    mode: str | None = option(
        None,
        "local; split or central: one campaign, --epsilon for a person (default privacy_mode).",
        "MODE",
    )
    seconds: float = option(40.0, "Duration of the replay.", "S")
    mechanism: MechanismOption = "rr"
    epsilon: EpsilonOption = None
    model: str | None = option(None, "hybrid, sketch, dense, ...")
    scale: ScaleOption = None
    ratings: int = option(300_000, "Number of synthetic ratings.", "N", min=1000, max=100_000_000)
    verbose: bool = option(False, "All figures, as lines.")
    keep: bool = option(False, "Keep broker, worker and page up until Ctrl-C.")
    open_page: bool = option(False, "Open the page in a browser; implies --keep.", None, "--open")
    json_file: Path | None = option(None, "Write the figures here.", "FILE", "--json")

    @property
    def stays(self) -> bool:
        """Whether everything is kept up until Ctrl-C."""
        return self.keep or self.open_page

    def check(self, file: Path | None) -> None:
        """Refuse values out of range, and a place that cannot be written."""
        if file is None and self.scale is not None:
            raise UsageError("--scale: the synthetic ratings are on 1 5 1; give it with a FILE")
        if not 1 <= self.seconds <= 86_400:  # NaN is not, either
            raise UsageError(f"--seconds {self.seconds:g}: give 1 to 86400")
        if self.json_file is not None:
            writable(self.json_file)
