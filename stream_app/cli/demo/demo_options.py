"""The options of `murmurec demo` as one value."""

from __future__ import annotations

from dataclasses import dataclass

from stream_app.cli.commands import option
from stream_app.cli.device.mechanism_options import EpsilonOption
from stream_app.errors import UsageError


@dataclass(frozen=True)
class DemoOptions:
    """The protection, the size and the end of a demo."""

    mode: str | None = option(
        None,
        "local; split or central: one campaign, --epsilon for a person (default privacy_mode).",
        "MODE",
    )
    seconds: float = option(40.0, "Duration of the replay.", "S")
    epsilon: EpsilonOption = None
    ratings: int = option(300_000, "Number of synthetic ratings.", "N", min=1000, max=100_000_000)
    keep: bool = option(False, "Keep broker, worker and page up until Ctrl-C.")
    open_page: bool = option(False, "Open the page in a browser; implies --keep.", None, "--open")

    @property
    def stays(self) -> bool:
        """Whether everything is kept up until Ctrl-C."""
        return self.keep or self.open_page

    def check(self) -> None:
        """Refuse a length out of range."""
        if not 1 <= self.seconds <= 86_400:  # NaN is not, either
            raise UsageError(f"--seconds {self.seconds:g}: give 1 to 86400")
