"""The keys of parties and the items of campaigns, from options or from the settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stream_app.errors import UsageError

if TYPE_CHECKING:
    from stream_app.settings import Settings


def campaign_keys(settings: Settings, files: Sequence[Path] | None) -> tuple[str, ...]:
    """Return the public halves of the parties in hex, a before b: those in `files` (`--keys`), or
    those of the setting `campaign_keys`; UsageError without either."""
    from stream_app.aggregation.keys import read_public

    found = tuple(read_public(path) for path in files or ()) or settings.campaign_keys
    if not found:
        raise UsageError(
            "no keys of the parties: give the public half of each with --keys FILE, a before b, or "
            "set MURMUREC_CAMPAIGN_KEYS to their hex digits, comma separated"
        )
    return found


def campaign_scope(settings: Settings, file: Path | None) -> Path:
    """Return the file of the public items of campaigns: that of `--scope`, or of the setting
    `campaign_scope`; UsageError without either."""
    found = file or settings.campaign_scope
    if found is None:
        raise UsageError(
            "no items of campaigns: give the list that the campaign was announced with (--scope "
            "FILE), or set MURMUREC_CAMPAIGN_SCOPE to its file"
        )
    return found
