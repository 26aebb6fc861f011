"""Prometheus collectors of the rows of a table, in a registry that the caller owns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
from prometheus_client import Metric as Family
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from stream_app.monitoring.metric_table import METRICS, Metric

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

    def exposition(self, **labels: str) -> bytes:
        """Return every metric in Prometheus' text format, to be served as `CONTENT_TYPE`; each
        sample has these labels, too."""
        return generate_latest(_Labelled(self.registry.collect(), labels))


class _Labelled(Collector):
    """Families of metrics, with more labels."""

    def __init__(self, families: Iterable[Family], labels: Mapping[str, str] | None = None) -> None:
        self._families, self._labels = families, labels or {}

    def collect(self) -> Iterator[Family]:
        for family in self._families:
            family.samples = [
                each._replace(labels={**each.labels, **self._labels}) for each in family.samples
            ]
            yield family


_UP = next(metric for metric in METRICS if metric.name == "shard_up")


def together(pages: Mapping[int, str | None]) -> bytes:
    """Return the expositions of several shards as one, with a family once; of a shard without one,
    or with another page, the sample of `murmurec_shard_up` is 0, and there is no other."""
    up = Family(_UP.published_name, _UP.help_text, "gauge")
    found = {up.name: up}
    for shard, page in pages.items():
        try:
            families = list(text_string_to_metric_families(page or ""))
        except (ValueError, IndexError, KeyError):
            families = []
        for family in families:
            found.setdefault(family.name, family)
            if found[family.name] is not family:
                found[family.name].samples += family.samples
        if not any(family.name == up.name for family in families):
            up.add_sample(up.name, {"shard": str(shard)}, 0)
    return generate_latest(_Labelled(found.values()))
