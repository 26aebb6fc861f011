"""The fixtures of a log without workers, as in `tests.kafka`."""

from __future__ import annotations

from tests.kafka.conftest import own_folder, send, settings

__all__ = ["own_folder", "send", "settings"]  # fixtures
