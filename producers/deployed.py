"""The deployment that the settings name, for programs that name none: as the commands have it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import NamedTuple

from stream_app.errors import UserError


class Deployed(NamedTuple):
    """Where a deployment is, and how its devices report: `partitions` where they are stated."""

    bootstrap_servers: str | None
    kafka: Mapping[str, str]
    topic_prefix: str
    partitions: int | None
    signed: bool

    @property
    def servers(self) -> str:
        """The addresses of the cluster; UserError where none are set."""
        if self.bootstrap_servers is None:
            raise UserError("no Kafka is configured: give an address or set " + _SERVERS)
        return self.bootstrap_servers


_SERVERS, _PREFIX = "MURMUREC_BOOTSTRAP_SERVERS", "MURMUREC_TOPIC_PREFIX"


def deployed() -> Deployed:
    """Return what the settings say; where the extra `cli` is not installed, which reads them,
    address and prefix in the environment. UserError for settings that are none."""
    try:
        from stream_app.settings import load
    except ModuleNotFoundError as missing:
        if missing.name not in ("platformdirs", "pydantic"):
            raise
        prefix = os.environ.get(_PREFIX) or "murmurec"
        return Deployed(os.environ.get(_SERVERS) or None, {}, prefix, None, signed=False)
    found = load()
    partitions = found.partitions if found.partitions_stated else None
    return Deployed(
        found.bootstrap_servers, found.kafka, found.topic_prefix, partitions, found.signed
    )
