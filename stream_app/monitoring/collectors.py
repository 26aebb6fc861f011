"""Prometheus collectors of the rows of a table, in a registry that the caller owns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    disable_created_metrics,
    generate_latest,
)

from stream_app.monitoring.metric_table import Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Collectors:
    """One collector for each row, by kind and name; methods of subclasses enter the numbers."""

    def __init__(self, metrics: Iterable[Metric], registry: CollectorRegistry) -> None:
        # A `_created` series per counter doubles their number and no panel reads it.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._histograms: dict[str, Histogram] = {}
        self._infos: dict[str, Info] = {}
        for metric in metrics:
            self._declare(metric)

    def _declare(self, metric: Metric) -> None:
        """Register the collector of one row, with its first series."""
        name, published, text = metric.name, metric.published_name, metric.help_text
        labels, registry = metric.label_names, self.registry
        if metric.kind == "counter":
            counter = self._counters[name] = Counter(published, text, labels, registry=registry)
            for values in filter(None, metric.initial_series()):
                counter.labels(*values)
        elif metric.kind == "gauge":
            gauge = self._gauges[name] = Gauge(published, text, labels, registry=registry)
            for values in metric.initial_series():
                (gauge.labels(*values) if values else gauge).set(metric.initial)
        elif metric.kind == "histogram":
            self._histograms[name] = Histogram(
                published, text, labels, buckets=metric.buckets, registry=registry
            )
        else:
            self._infos[name] = Info(published.removesuffix("_info"), text, registry=registry)

    def exposition(self) -> bytes:
        """Return every metric in Prometheus' text format, to be served as `CONTENT_TYPE`."""
        return generate_latest(self.registry)
