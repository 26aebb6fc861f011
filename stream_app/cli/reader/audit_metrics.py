"""What canaries show of each mechanism, as a file for Prometheus.

An audit is a job that ends, so there is nothing to scrape: node_exporter's textfile collector, or
any server of files, publishes what the newest audit has found beside the epsilon that a worker
claims (`murmurec_epsilon_claimed`). A lower bound is a measurement: below the claim it proves
nothing, above it the claim is false.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry

from consumers.audit.findings import Finding
from stream_app.errors import UserError
from stream_app.kafka import durable_file
from stream_app.monitoring.collectors import Collectors
from stream_app.monitoring.metric_table import ADJACENCY, MECHANISM, Metric, Source
from stream_app.privacy.mechanism import Mechanism

AUDIT_METRICS: tuple[Metric, ...] = (
    Metric(
        *("audit_epsilon_lower_bound", "gauge", Source.RELEASED, (MECHANISM, ADJACENCY)),
        "Lower bound of the epsilon of a report, from devices of known ratings, false with "
        "probability --alpha at most: a measurement, no guarantee.",
    ),
)


class AuditMetrics(Collectors):
    """Everything that an audit by canaries publishes, in one registry."""

    def __init__(self) -> None:
        super().__init__(AUDIT_METRICS, CollectorRegistry())

    def found(self, findings: Iterable[Finding], mechanisms: Sequence[Mechanism]) -> None:
        """Enter the bound of each of these mechanisms of which a finding has one."""
        adjacencies = {each.id: str(each.adjacency) for each in mechanisms}
        bound = self._gauges["audit_epsilon_lower_bound"]
        for figures in (finding.figures for finding in findings):
            if (mechanism := str(figures.get("mechanism"))) in adjacencies:
                bound.labels(mechanism, adjacencies[mechanism]).set(float(figures["epsilon"]))


def write(path: Path, findings: Iterable[Finding], mechanisms: Sequence[Mechanism]) -> None:
    """Write the file as a whole, so that no reader finds a part of it; UserError where it cannot be
    written."""
    metrics = AuditMetrics()
    metrics.found(findings, mechanisms)
    if path.is_dir():
        raise UserError(f"--metrics {path}: is a folder; name a file in it")
    try:
        durable_file.replace(path, metrics.exposition(), durable_file.SHARED)
    except OSError as error:
        raise UserError(
            f"--metrics {path}: cannot be written ({error.strerror}); name a file in a folder that "
            "you may write"
        ) from None
