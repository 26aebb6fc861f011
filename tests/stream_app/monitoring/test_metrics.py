"""Every metric: named by the rules, explained, with its source stated, and free of ids."""

from __future__ import annotations

import re
from math import inf, isnan

import prometheus_client
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

import stream_app
from stream_app.monitoring.collectors import CONTENT_TYPE
from stream_app.monitoring.metric_table import METRICS, table
from stream_app.monitoring.metrics import Metrics
from stream_app.wire import REASONS, Reason
from tests.fixtures.metric_calls import CALLS

SOURCES = {
    "released": "Computed from sanitized events (post-processing)",
    "arrivals": "sanitized or not; no rating is looked at",
    "queries": "Computed from queries and the model of sanitized events (post-processing)",
    "settings": "not computed from events",
    "process": "not computed from ratings",
}
LABELS = {
    "activity",
    "adjacency",
    "campaigns",
    "detector",
    "folder",
    "kind",
    "le",
    "list",
    "mechanism",
    "method",
    "outcome",
    "part",
    "party",
    "predictor",
    "privacy_mode",
    "python",
    "reason",
    "table",
    "version",
    "window",
}
UNITS = ("_total", "_ratio", "_seconds", "_bytes", "_nats", "_info", "_records")
WITHOUT_UNIT = {
    "murmurec_campaign_contributions",
    "murmurec_campaign_entries_ignored",
    "murmurec_campaign_epsilon",
    "murmurec_campaign_number",
    "murmurec_campaign_stages",
    "murmurec_campaign_stages_aborted",
    "murmurec_campaign_stages_released",
    "murmurec_checkpoint_cut_number",
    "murmurec_clip_threshold",
    "murmurec_count_min_error_bound",
    "murmurec_cut_number",
    "murmurec_devices",
    "murmurec_drift_statistic",
    "murmurec_epsilon_claimed",
    "murmurec_index_items",
    "murmurec_item_side_factors",
    "murmurec_item_side_items",
    "murmurec_items",
    "murmurec_list_devices",
    "murmurec_list_method",
    "murmurec_prediction_rmse",
    "murmurec_prediction_rmse_baseline",
    "murmurec_profile_devices",
    "murmurec_ready",
    "murmurec_clock_owner",
    "murmurec_shard_up",
    "murmurec_second_moment",
    "murmurec_second_moment_relative_deviation",
}


def used() -> Metrics:
    """Return metrics of which every method was called once."""
    metrics = Metrics(CollectorRegistry())
    for call in CALLS.values():
        call(metrics)
    return metrics


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(f"murmurec_{name}", labels)


def exposed() -> dict[str, str]:
    """Return name -> help text as Prometheus reads it."""
    names = {}
    for family in text_string_to_metric_families(used().exposition().decode()):
        suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
        names[family.name.removesuffix(suffix) + suffix] = family.documentation
    return names


def test_every_public_method_is_called_by_these_tests() -> None:
    methods = {name for name in vars(Metrics) if not name.startswith("_")} - {"exposition"}
    assert methods == set(CALLS)


def test_every_row_is_published_with_its_help_text() -> None:
    assert {metric.published_name: metric.help_text for metric in METRICS} == exposed()


def test_every_method_and_every_row_belong_together() -> None:
    fresh, changed = Metrics(CollectorRegistry()).exposition().decode(), used().exposition()
    lines = set(changed.decode().splitlines()) - set(fresh.splitlines())
    for metric in METRICS:
        series = [line for line in lines if re.match(rf"{metric.published_name}[_ {{]", line)]
        assert series, f"{metric.name}: no method changes it"


def test_every_help_text_ends_with_its_source() -> None:
    for metric in METRICS:
        assert SOURCES[metric.source.name.lower()] in exposed()[metric.published_name], metric.name


def test_the_printed_table_has_a_line_for_every_metric() -> None:
    lines = table().splitlines()
    assert lines[0].split() == ["name", "source", "labels", "meaning"]
    assert [line.split()[0] for line in lines[1:]] == [each.published_name for each in METRICS]
    assert all(line.endswith(each.meaning) for line, each in zip(lines[1:], METRICS, strict=True))


def test_names_follow_the_rules() -> None:
    for name in exposed():
        assert re.fullmatch(r"murmurec_[a-z]+(_[a-z]+)*", name)
        assert name.endswith(UNITS) or name in WITHOUT_UNIT, name


def test_a_list_that_is_not_measured_any_more_has_no_quality() -> None:
    metrics = Metrics(CollectorRegistry())
    for ndcg, popular, error in ((0.2, 0.1, 0.01), (None, None, None)):
        metrics.ranking("links", ndcg, popular, error)
        shown = value(metrics, "list_ndcg_error_ratio")
        assert shown == error or (error is None and isnan(shown))
        for name, expected in (("served", ndcg), ("popular", popular)):
            found = value(metrics, "list_ndcg_ratio", list=name)
            assert found == expected or (expected is None and isnan(found))


def test_no_label_can_hold_a_user_an_item_or_a_correlation_id() -> None:
    metrics = used()
    labels = {
        label for family in metrics.registry.collect() for s in family.samples for label in s.labels
    }
    assert labels - {"commit"} <= LABELS


def test_no_created_series_is_published() -> None:
    assert b"_created" not in used().exposition()


def test_the_exposition_is_what_the_content_type_promises() -> None:
    assert CONTENT_TYPE == prometheus_client.CONTENT_TYPE_PLAIN_0_0_4
    text = used().exposition()
    assert text.endswith(b"\n")
    assert b"# EOF" not in text  # that would be OpenMetrics, under another content type


def test_two_registries_do_not_share_anything() -> None:
    first, second = Metrics(CollectorRegistry()), Metrics(CollectorRegistry())
    first.applied(1)
    assert value(first, "events_total", outcome="applied") == 1
    assert value(second, "events_total", outcome="applied") == 0


def test_an_unmeasured_gauge_is_nan_and_a_counter_starts_at_zero() -> None:
    fresh = Metrics(CollectorRegistry())
    for family in fresh.registry.collect():
        for sample in family.samples:
            flags = ("murmurec_ready", "murmurec_clock_owner")
            if sample.name in flags or family.type in ("counter", "histogram"):
                assert sample.value == 0, sample
            elif family.type == "gauge":
                assert isnan(sample.value), sample


def test_outcomes_and_reasons_exist_from_the_start_so_that_rates_see_the_first_one() -> None:
    fresh = Metrics(CollectorRegistry())
    for reason in REASONS:
        wanted = None if reason is Reason.ACCEPTED else 0
        assert value(fresh, "rejected_total", reason=reason.value) == wanted
    for outcome in ("answered", "expired", "refused", "busy"):
        assert value(fresh, "queries_total", outcome=outcome) == 0


def test_records_count_by_outcome_and_rejections_by_reason_too() -> None:
    metrics = used()
    assert value(metrics, "events_total", outcome="applied") == 3
    assert value(metrics, "events_total", outcome="duplicate") == 2
    assert value(metrics, "events_total", outcome="rejected") == 4
    assert value(metrics, "rejected_total", reason="malformed") == 4
    assert value(metrics, "seq_gaps_total") == 5


def test_ratings_count_by_outcome_and_clipped_ones_as_clipped_updates() -> None:
    metrics = used()
    counts = [
        value(metrics, "ratings_total", outcome=outcome)
        for outcome in ("learned", "held_out", "clipped", "duplicate")
    ]
    assert counts == [10, 2, 1, 6]
    assert value(metrics, "update_clipped_total") == 1


@pytest.mark.parametrize("reason", [Reason.ACCEPTED, "an invented reason"])
def test_only_a_reason_of_the_contract_can_become_a_label(reason: str) -> None:
    metrics = Metrics(CollectorRegistry())
    with pytest.raises(ValueError, match="reason"):
        metrics.rejected(reason)  # type: ignore[arg-type]
    assert value(metrics, "events_total", outcome="rejected") == 0


def test_a_mechanism_that_claims_nothing_claims_infinity() -> None:
    metrics = used()
    metrics.epsilon_claimed("rr:5:inf", "nothing", None)
    assert value(metrics, "epsilon_claimed", mechanism="rr:5:2", adjacency="value") == 2
    assert value(metrics, "epsilon_claimed", mechanism="rr:5:inf", adjacency="nothing") == inf


def test_gauges_hold_the_published_numbers() -> None:
    metrics = used()
    assert value(metrics, "prediction_rmse", window="recent", kind="debiased") == 0.91
    assert value(metrics, "prediction_rmse_baseline", kind="debiased") == 0.98
    assert value(metrics, "log_loss_nats", predictor="model", window="recent") == 0.61
    assert value(metrics, "cells_missing_total") == 8
    assert value(metrics, "leakage_kl_nats") == 0.0144
    assert value(metrics, "clip_threshold") == inf
    assert value(metrics, "privacy_mode_info", privacy_mode="local", campaigns="split") == 1
    metrics.privacy_mode("none", "local")
    assert value(metrics, "privacy_mode_info", privacy_mode="none", campaigns="none") == 1
    assert value(metrics, "campaign_stages") == 2
    assert value(metrics, "campaign_number") == 3
    assert value(metrics, "campaign_epsilon") == 2
    assert value(metrics, "campaign_stages_released") == 1
    assert value(metrics, "campaign_contributions") == 900
    assert value(metrics, "campaign_stages_aborted") == 2
    assert value(metrics, "campaign_entries_ignored") == 5
    assert value(metrics, "sketch_load_ratio", table="factors") == 0.4
    assert value(metrics, "bloom_fill_ratio") == 0.1
    assert value(metrics, "bloom_false_positive_ratio") == 1e-5
    assert value(metrics, "second_moment") == 1e6
    assert value(metrics, "second_moment_relative_deviation") == 0.04
    assert value(metrics, "count_min_error_bound") == 12
    assert (value(metrics, "items"), value(metrics, "devices")) == (100, 50)
    assert value(metrics, "model_memory_bytes", part="sketch") == 4096
    assert value(metrics, "index_items", method="qolsh") == 100
    assert value(metrics, "query_recall_ratio", method="qolsh") == 0.98
    assert value(metrics, "cut_number") == 7
    assert value(metrics, "state_cut_timestamp_seconds") == 1.7e9
    assert (value(metrics, "consumer_lag_records"), value(metrics, "consumer_lag_seconds")) == (
        40,
        0.3,
    )
    assert value(metrics, "ready") == 1
    assert value(metrics, "checkpoint_cut_number") == 6
    assert value(metrics, "checkpoint_timestamp_seconds") == 1.7e9
    assert value(metrics, "checkpoint_bytes_total") == 1 << 24
    assert value(metrics, "recovery_duration_seconds") == 0.4
    assert value(metrics, "replicas_differ_total") == 1


def test_durations_fall_into_buckets_around_them() -> None:
    metrics = used()
    labels = {"method": "qolsh"}
    assert value(metrics, "query_duration_seconds_bucket", le="0.0025", **labels) == 0
    assert value(metrics, "query_duration_seconds_bucket", le="0.005", **labels) == 1
    assert value(metrics, "apply_duration_seconds_bucket", le="0.01") == 0
    assert value(metrics, "apply_duration_seconds_bucket", le="0.025") == 1
    assert value(metrics, "rounds_total") == 1
    assert value(metrics, "learning_thread_seconds_total", activity="applying") == 0.5
    assert value(metrics, "learning_thread_seconds_total", activity="waiting") == 0


def test_queries_count_by_outcome() -> None:
    metrics = used()
    counts = [
        value(metrics, "queries_total", outcome=outcome)
        for outcome in ("answered", "expired", "refused", "busy")
    ]
    assert counts == [1, 1, 1, 1]


def test_the_build_names_its_versions() -> None:
    text = used().exposition().decode()
    assert f'version="{stream_app.__version__}"' in text
    assert 'commit="abc"' in text
