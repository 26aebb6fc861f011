"""Settings: who wins, and one sentence for every mistake."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path

import pytest

from stream_app.deployment import seal_from_settings, spec_from_settings
from stream_app.errors import UserError
from stream_app.settings import (
    GROUPS,
    SIZES,
    Settings,
    check_memory,
    is_secret,
    load,
    place,
    variable,
)
from stream_app.state.spec import StateSpec
from stream_app.wire.topics import FEATURES

MIB = 1024 * 1024


@pytest.fixture
def file(tmp_path):
    """Write a configuration file and return its path."""

    def write(text):
        path = tmp_path / "given.toml"
        path.write_text(text)
        return path

    return write


def test_without_anything_the_defaults_hold(environment):
    settings = load()
    assert (settings.topic_prefix, settings.partitions, settings.mechanisms) == (
        "murmurec",
        4,
        ("rr:5:2",),
    )
    assert settings.bootstrap_servers is None
    assert settings.clip == math.inf
    assert settings.sketch_bytes == 16 * MIB
    assert settings.admin_host == "127.0.0.1"


def test_a_flag_wins_over_the_environment_and_that_over_the_file(environment, file):
    path = file("[tuning]\nfactors = 1\ndepth = 1\n[admin]\nport = 1")
    environment(MURMUREC_TUNING_FACTORS="2", MURMUREC_TUNING_DEPTH="2")
    settings = load(path, factors=3, depth=None)
    assert (settings.factors, settings.depth, settings.admin_port) == (3, 2, 1)


def test_the_file_is_the_named_one_else_the_variables_else_the_one_that_lies_here(
    environment, file
):
    named = file("[tuning]\nfactors = 1")
    Path("murmurec.toml").write_text("[tuning]\nfactors = 3")
    Path("other.toml").write_text("[tuning]\nfactors = 2")
    assert load().factors == 3
    environment(MURMUREC_CONFIG="other.toml")
    assert load().factors == 2
    assert load(named).factors == 1


def test_kafka_properties_join_from_all_three_places(environment, file):
    path = file(
        '[broker.kafka]\nsasl.username = "file"\nlinger.ms = 5\nlog.connection.close = false'
    )
    environment(MURMUREC_KAFKA="sasl.password=hunter2, sasl.username=ann")
    assert load(path, kafka={"linger.ms": "9"}).kafka == {
        "sasl.username": "ann",
        "sasl.password": "hunter2",
        "linger.ms": "9",
        "log.connection.close": "false",
    }


def test_a_password_with_a_comma_can_be_given_as_json(environment):
    environment(MURMUREC_KAFKA='{"sasl.password": "a,b=c"}')
    assert load().kafka == {"sasl.password": "a,b=c"}


@pytest.mark.parametrize("text", ["16MiB", "16 MiB", "16777216"])
def test_a_size_may_carry_its_unit(environment, text):
    environment(MURMUREC_TUNING_SKETCH_BYTES=text)
    assert load().sketch_bytes == 16 * MIB


def test_mechanisms_are_a_comma_separated_list(environment):
    environment(MURMUREC_MECHANISMS="rr:5:2, rr:5:1/2")
    assert load().mechanisms == ("rr:5:2", "rr:5:1/2")


def test_an_empty_variable_of_bootstrap_servers_means_none(environment):
    environment(MURMUREC_BOOTSTRAP_SERVERS="")
    assert load().bootstrap_servers is None


@pytest.mark.parametrize("given", ["a:1", "a", "a:1, b:2", "[::1]:9092", "kafka-0.ns.svc:9092"])
def test_every_usual_way_to_write_an_address_is_taken(environment, given):
    assert load(bootstrap_servers=given).bootstrap_servers == given.replace(" ", "")


# What is given, and what the sentence must say: the value, where it came from, the limit.
WRONG = {
    "factors": [(0, "factors = 0 (--factors): must be a whole number, at least 1, at most 256")],
    "depth": [(17, "at most 16"), (1.5, "a whole number"), (True, "depth = true")],
    "partitions": [(0, "at least 1"), ("four", "partitions = four (--partitions): must be")],
    "admin_port": [(-1, "at least 0"), (65536, "at most 65535")],
    "clip": [(0, "above 0"), (-1, "above 0"), (math.nan, "above 0"), ("x", "a number")],
    "held_out": [(-0.1, "at least 0"), (0.51, "at most 0.5"), (math.nan, "at least 0")],
    "cut_seconds": [(0, "at least 0.01"), (math.inf, "at most 60")],
    "round_records": [(0, "at least 1")],
    "checkpoint_seconds": [(0, "at least 0.1, at most 3600"), (1e9, "at least 0.1, at most 3600")],
    "replay_seconds": [(0, "at least 0.01"), (1e9, "at most 3600")],
    "ratings_retention_seconds": [(1, "at least 60"), ("x", "at least 60")],
    "instance": [("", "1 to 100"), ("a b", "1 to 100")],
    "recent_items": [(100, "a multiple of 16")],
    "size": [("huge", "must be one of small, medium, large")],
    "hash_seed": [(-1, "at least 0"), (2**57, "below 144115188075855872")],
    "sketch_bytes": [(0, "at least 1024"), (-1, "a size such as 16MiB"), ("lots", "a size such")],
    "scalars_bytes": [(1, "at least 1024")],
    "seen_bytes": [("1 lightyear", "a size such as 16MiB")],
    "model": [("", "name of the learner")],
    "log_format": [("xml", "must be one of auto, json, console")],
    "log_level": [("loud", "must be one of DEBUG, INFO")],
    "accept_tests": [("perhaps", "must be true or false")],
    "topic_prefix": [("a b", "topic_prefix = a b (--prefix)"), ("", "1 to 100"), ("é", "1 to 100")],
    "group": [("", "consumer group")],
    "admin_host": [("", "address of")],
    "admin_hosts": [("a b", "name of a host"), ("a:1", "name of a host")],
    "gateway_port": [(65536, "at most 65535")],
    "gateway_hosts": [("a b", "name of a host")],
    "gateway_origins": [("shop.example", "is not an origin"), ("https://a/", "without a path")],
    "gateway_rate": [(-1, "at least 0"), (math.nan, "at least 0"), ("x", "a number")],
    "gateway_worker": [("worker:8470", "such as http://worker:8470"), ("http://a/b", "such as")],
    "gateway_grafana": [
        ("javascript:alert(1)", "gateway_grafana = javascript:alert(1)"),
        ("grafana:3000", "such as https://grafana.example.org"),
        ("http://", "such as https://"),
        ("https://user:word@grafana", "such as https://"),
        ("https://grafana/?auth_token=word", "such as https://"),
        ("https://grafana?auth_token=word", "such as https://"),
    ],
    "admin_token": [("short", "16 to 512"), ("with a space in it", "16 to 512")],
    "bootstrap_servers": [
        ("http://a:1", "without a scheme"),
        ("a:99999", "ports 1 to 65535"),
        ("a:0", "ports 1 to 65535"),
        ("a,,b", "host:port"),
        ("user@a:1", "host:port"),
    ],
    "mechanisms": [
        ("", "family:levels:epsilon"),
        ((), "allow-list"),
        ("rr", "mechanism 'rr' is not family:levels:epsilon"),
        ("rr:5:2,rr:5:2", "names a mechanism twice"),
    ],
    "kafka": [
        ({"a": None}, "kafka property a (-X)"),
        ("a", "name=value"),
        ("{", "JSON"),
        (3, "table"),
    ],
    "data_dir": [(3, "data_dir = 3")],
    "campaign_keys": [
        ("ab", "'ab' is not the public half of a party's keys, 64 hex digits; murmurec aggregate"),
        (",".join(["11" * 32] * 2), "names a key twice"),
        (",".join(f"{n}{n}" * 32 for n in range(3)), "public halves of the parties"),
    ],
}
CASES = [(name, *case) for name, cases in WRONG.items() for case in cases]


@pytest.mark.parametrize(("name", "value", "said"), CASES, ids=lambda v: str(v)[:30])
def test_a_bad_value_is_one_sentence_with_the_value_and_the_limit(environment, name, value, said):
    with pytest.raises(UserError) as refused:
        load(**{name: value})
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "pydantic" not in str(refused.value)


def test_a_sentence_names_the_variable_or_the_file_the_value_came_from(environment, file):
    with pytest.raises(UserError, match=r"given\.toml\): must be"):
        load(file("[tuning]\nfactors = 0"))
    environment(MURMUREC_TUNING_FACTORS="0")
    with pytest.raises(UserError, match=r"factors = 0 \(MURMUREC_TUNING_FACTORS\)"):
        load()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("[tuning]\nfactrs = 1", r"key factrs of \[tuning\] in .*given.toml: did you mean factors"),
        ("[tunning]\nfactors = 1", "unknown key tunning in .*given.toml: did you mean tuning?"),
        ("[topics]\ntopic_prefix = 1", r"unknown key topic_prefix of \[topics\] .* prefix\?"),
        ("zzz = 1", "unknown key zzz .* murmurec config show lists all"),
        ("factors = ", "is not TOML"),
        ("[tuning.sketch_bytes]\na = 1", "sketch_bytes = "),
    ],
)
def test_a_wrong_file_is_one_sentence(environment, file, given, said):
    with pytest.raises(UserError, match=said):
        load(file(given))


def test_a_file_that_cannot_be_read_is_one_sentence(environment, tmp_path):
    with pytest.raises(UserError, match=r"nowhere\.toml cannot be read: No such file"):
        load(tmp_path / "nowhere.toml")
    with pytest.raises(UserError, match="cannot be read: Is a directory"):
        load(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"group = '\xe9'")
    with pytest.raises(UserError, match="is not UTF-8"):
        load(tmp_path / "latin.toml")


def test_an_unknown_flag_is_refused_with_the_nearest_name(environment):
    with pytest.raises(UserError, match=r"unknown setting partition: did you mean partitions\?"):
        load(partition=3)


def test_a_misspelt_variable_is_refused_and_what_kubernetes_adds_is_not(environment):
    environment(MURMUREC_SERVICE_HOST="10.0.0.1", MURMUREC_PORT="tcp://10.0.0.1:8470")
    load()
    environment(MURMUREC_BOOTSTRAP_SERVER="a:1")
    with pytest.raises(UserError, match=r"did you mean MURMUREC_BOOTSTRAP_SERVERS\?"):
        load()


def test_a_secret_is_shown_nowhere(environment):
    environment(MURMUREC_KAFKA="sasl.password=hunter2,sasl.username=ann")
    settings = load(kafka={"ssl.key.password": "hunter2"})
    assert settings.shown()["kafka"] == {
        "sasl.password": "********",
        "ssl.key.password": "********",
        "sasl.username": "ann",
    }
    assert "hunter2" not in repr(settings) + str(settings)
    with pytest.raises(UserError) as refused:
        load(kafka={"sasl.password": ["hunter2"]})
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "name",
    [
        "sasl.password",
        "ssl.key.password",
        "ssl.keystore.password",
        "ssl.key.pem",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "sasl.oauthbearer.assertion.private.key.file",
        "SASL.PASSWORD",
    ],
)
def test_every_secret_property_of_librdkafka_counts_as_one(name):
    assert is_secret(name)


@pytest.mark.parametrize("name", ["sasl.username", "ssl.ca.location", "security.protocol"])
def test_a_property_that_helps_to_find_a_mistake_is_shown(name):
    assert not is_secret(name)


def test_the_token_of_the_admin_port_is_shown_nowhere(environment):
    environment(MURMUREC_ADMIN_TOKEN="hunter2-hunter2-hunter2")
    settings = load()
    assert settings.shown()["admin_token"] == "********"
    assert "hunter2" not in repr(settings) + str(settings)
    environment(MURMUREC_ADMIN_TOKEN="hunter2")
    with pytest.raises(UserError, match="16 to 512 printable") as refused:
        load()
    assert "hunter2" not in str(refused.value)


def test_sizes_that_do_not_fit_the_machine_are_refused():
    """Twice 80 MiB of state, 65,536 items of 336 bytes (21 MiB), 250 MiB: 431 of 479 MiB."""
    sizes = {"scalars_bytes": 10 * MIB, "seen_bytes": 6 * MIB, "presence_bytes": 4 * MIB}
    settings = Settings(sketch_bytes=57 * MIB, head_items=512, items_most=65_536, **sizes)
    check_memory(settings, 479 * MIB)
    with pytest.raises(
        UserError,
        match=r"12 x head_items\^2 \(12 x 512\^2 = 3\.0MiB\) = 80\.0MiB, held twice .* "
        r"items_most x 336 bytes \(65,536 items, 21\.0MiB\) \+ 250\.0MiB .* = 431\.0MiB, "
        r"more than 90% of the "
        r"478\.0MiB",
    ):
        check_memory(settings, 478 * MIB)
    check_memory(settings, 1437 * MIB, shards=3)
    with pytest.raises(UserError, match=r"= 431\.0MiB, for 3 shards 1\.3GiB, more than 90% of"):
        check_memory(settings, 1436 * MIB, shards=3)


def test_a_state_of_four_gib_fits_a_machine_that_the_arithmetic_names():
    sizes = {"sketch_bytes": 2048 * MIB, "seen_bytes": 1024 * MIB, "scalars_bytes": 972 * MIB}
    settings = Settings(items_most=1 << 20, **sizes)
    check_memory(settings, 10 * 1024 * MIB)
    with pytest.raises(UserError, match="4\\.0GiB, held twice"):
        check_memory(settings, 8 * 1024 * MIB)


def test_the_size_check_is_part_of_loading(environment):
    with pytest.raises(UserError, match="lower one of them"):
        load(sketch_bytes="1000 TiB")


def test_settings_cannot_be_changed_and_every_field_says_what_it_is():
    with pytest.raises(ValueError, match="frozen"):
        Settings().factors = 2
    assert all(field.description for field in Settings.model_fields.values())


def test_the_state_secret_has_a_least_length_and_is_shown_nowhere(environment, tmp_path):
    environment(MURMUREC_STATE_SECRET="hunter2")
    with pytest.raises(UserError, match="32 to 4096 characters") as refused:
        load()
    assert "hunter2" not in str(refused.value)
    environment(MURMUREC_STATE_SECRET="hunter2" * 5)
    settings = load()
    assert settings.shown()["state_secret"] == "********"
    assert "hunter2" not in repr(settings) + str(settings)
    assert seal_from_settings(settings).keyed
    assert not seal_from_settings(Settings()).keyed


def test_deployments_of_one_secret_have_seals_of_their_own():
    here, there = (
        seal_from_settings(Settings(state_secret="a" * 32, topic_prefix=prefix)).tag(b"", b"")
        for prefix in ("here", "there")
    )
    assert here != there


@pytest.mark.parametrize("empty", ["", " "])
def test_what_compose_leaves_empty_is_unset(environment, empty):
    names = ("ADMIN_TOKEN", "STATE_SECRET", "STATE_SECRET_FILE", "ADMIN_HOSTS")
    names += ("CAMPAIGN_KEYS", "CAMPAIGN_SCOPE")
    environment(**{f"MURMUREC_{name}": empty for name in names})
    settings = load()
    assert (settings.admin_token, settings.admin_hosts) == (None, ())
    assert (settings.state_secret, settings.state_secret_file) == (None, None)
    assert (settings.campaign_keys, settings.campaign_scope) == ((), None)
    assert not seal_from_settings(settings).keyed
    environment(MURMUREC_ADMIN_HOSTS="worker,,Other,")
    assert load().admin_hosts == ("worker", "other")


def test_the_state_secret_may_come_from_a_file(environment, tmp_path):
    path = tmp_path / "secret"
    path.write_text("hunter2" * 5 + "\n")
    tag = seal_from_settings(load(state_secret="hunter2" * 5)).tag(b"", b"")
    settings = load(state_secret_file=path)
    assert seal_from_settings(settings).tag(b"", b"") == tag
    assert settings.shown()["state_secret_file"] == str(path)
    for wrong, said in (
        ({"state_secret": "a" * 32}, "give only one"),
        ({"state_secret_file": tmp_path / "none"}, "readable file with a secret of at least 32"),
        ({"state_secret_file": "/dev/zero"}, "readable file with a secret of at least 32"),
    ):
        with pytest.raises(UserError, match=said):
            seal_from_settings(load(**{"state_secret_file": path, **wrong}))
    path.write_text("short")
    with pytest.raises(UserError, match="at least 32") as refused:
        seal_from_settings(settings)
    assert "short" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "value", "limit"),
    [
        ("items_most", "5", "must be a whole number, at least 1024, at most 2147483647, or unset"),
        ("query_partitions", "0", "must be a whole number, at least 1, at most 1024, or unset"),
        ("min_insync_replicas", "x", "must be a whole number, at least 1, at most 100, or unset"),
        ("checkpoint_seconds", "0", "must be a number, at least 0.1, at most 3600, or unset"),
    ],
)
def test_a_number_that_may_be_unset_is_refused_with_its_limits(environment, name, value, limit):
    environment(**{variable(name): value})
    with pytest.raises(UserError) as refused:
        load()
    assert str(refused.value) == f"{name} = {value} ({variable(name)}): {limit}"


def test_each_shard_has_as_many_partitions_of_the_queries_and_workers_of_its_own(environment):
    environment(MURMUREC_SHARDS="4", MURMUREC_SHARD="3", MURMUREC_TUNING_QUERY_PARTITIONS="12")
    assert load(topic_prefix="p").worker_group == "p-worker-shard-3"
    assert load(topic_prefix="p", shards=1).worker_group == "p-worker"
    environment(MURMUREC_TUNING_QUERY_PARTITIONS="10")
    with pytest.raises(UserError, match=r"query_partitions = 10 .*a multiple of shards, 4, such"):
        load()


@pytest.mark.parametrize("name", Settings.model_fields)
def test_a_name_at_the_top_of_the_file_is_refused_with_its_table(environment, file, name):
    group, key = place(name)
    with pytest.raises(UserError, match=rf"is {key} in the table \[{group}\] of the file"):
        load(file(f"{name} = 1"))


def test_a_tuning_name_without_its_table_in_the_environment_is_refused_with_the_new_one(
    environment,
):
    environment(MURMUREC_CUT_SECONDS="1")
    with pytest.raises(UserError) as refused:
        load()
    assert str(refused.value) == (
        "MURMUREC_CUT_SECONDS: this setting is MURMUREC_TUNING_CUT_SECONDS (cut_seconds in the "
        "table [tuning] of the file)"
    )


def test_no_two_settings_have_one_place():
    places = [place(name) for name in Settings.model_fields]
    assert len(set(places)) == len(places)


def test_the_size_gives_what_is_not_set_and_medium_is_the_default(environment, monkeypatch):
    monkeypatch.delenv("MURMUREC_CAMPAIGN_NOTICE_SECONDS")
    assert load(size="medium") == load() == Settings()
    large = load(size="large", seen_bytes="8MiB")
    assert (large.sketch_bytes, large.seen_bytes, large.head_items) == (128 * MIB, 8 * MIB, 4096)
    assert spec_from_settings(load(size="small")).sketch_bytes == 4 * MIB
    assert {name for each in SIZES.values() for name in each} <= set(GROUPS["tuning"].model_fields)


def test_every_feature_with_topics_of_its_own_is_turned_on_by_a_setting():
    assert not Settings().features
    on = Settings(
        privacy_mode="split",
        shards=2,
    )
    assert on.features == set(FEATURES)


def test_a_worker_and_an_evaluation_have_one_default_for_what_decides_the_state() -> None:
    """But for the items that have a row, which are bounded by the machine's memory, and the scope,
    which is read from a file."""
    shared = [each for each in fields(StateSpec) if each.name in Settings.model_fields]
    assert len(shared) > 10
    for each in shared:
        if each.name not in ("mechanisms", "items_most", "shard"):
            assert Settings.model_fields[each.name].default == each.default, each.name
