"""Kafka clients: what they refuse, and the one sentence for each way in which no broker answers."""

from __future__ import annotations

import ctypes
import http.server
import re
import socket
import ssl
import subprocess
import threading
import time
from contextlib import contextmanager
from itertools import chain
from pathlib import Path

import pytest

from stream_app.broker import local
from stream_app.errors import UserError
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection
from tests.conftest import cache_dir

NOWHERE = "127.0.0.1:1"
SASL = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "ann",
    "sasl.password": "right",
}


def unreachable(bootstrap, properties=None, seconds=0.6):
    with pytest.raises(UserError) as refused:
        clients.describe_cluster(Connection(bootstrap, properties or {}), seconds)
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("make", [clients.producer, clients.consumer, clients.admin])
def test_an_unknown_property_is_refused_with_the_nearest_name(make):
    with pytest.raises(UserError, match=r"property sasl\.pasword: did you mean sasl\.password\?"):
        make(Connection(NOWHERE, {"sasl.pasword": "hunter2"}))
    with pytest.raises(UserError, match="unknown Kafka property zzz: see librdkafka"):
        make(Connection(NOWHERE, {"zzz": "1"}))


def test_a_bad_value_is_refused_without_repeating_it():
    with pytest.raises(
        UserError, match=r"Kafka property security\.protocol has a value"
    ) as refused:
        clients.admin(Connection(NOWHERE, {"security.protocol": "hunter2"}))
    assert "hunter2" not in str(refused.value)


# What rests on a property that cannot be passed through -> the properties.
GUARANTEES = {
    "state: all read the same records": (
        *("isolation.level", "auto.offset.reset", "check.crcs", "topic.blacklist"),
        *("receive.message.max.bytes", "api.version.request", "api.version.fallback.ms"),
        *("broker.version.fallback", "enable.partition.eof", "bootstrap.servers"),
        *("metadata.broker.list", "plugin.library.paths"),
    ),
    "who reads a partition, and from where": (
        *("enable.auto.commit", "auto.commit.enable", "enable.auto.offset.store"),
        *("offset.store.method", "group.id", "group.instance.id", "group.protocol"),
        *("group.protocol.type", "group.remote.assignor", "partition.assignment.strategy"),
    ),
    "order": ("partitioner", "queuing.strategy", "enable.idempotence", "transactional.id"),
    "no record is lost": (
        *("acks", "request.required.acks", "retries", "message.send.max.retries"),
        *("delivery.report.only.error", "enable.gapless.guarantee", "enabled_events"),
        *("message.max.bytes", "allow.auto.create.topics"),
    ),
    "memory: a batch can expand": (
        *("fetch.max.bytes", "fetch.message.max.bytes", "max.partition.fetch.bytes"),
    ),
    "privacy: the broker knows no device, and a reply's length nothing": (
        *("client.id", "client.rack", "enable.metrics.push", "compression.codec"),
    ),
}
# Neither state, order, delivery nor privacy rests on these: how a client connects and who it is,
# how long it waits, how much it holds in memory, what it logs; or librdkafka takes no text for it.
PASSED = re.compile(
    r"(ssl|https|sasl|enable\.(ssl|sasl)|security|socket|reconnect|retry|metadata|connections|"
    r"topic\.metadata|broker\.address|client\.dns|log|queue|queued|queuing\.buffering|internal|"
    r"sticky|statistics|batch|message\.copy|coordinator|consume\.callback|share|offset\.store)"
    r"[._].*|.*_cb|ssl_\w+|debug|builtin\.features|interceptors|opaque|default_topic_conf|"
    r"msg_order_cmp|linger\.ms|compression\.(type|level)|max\.in\.flight.*|max\.poll.*|"
    r"(session|transaction|(api\.version\.)?request|message|delivery)\.timeout\.ms|heartbeat\.interval\.ms|"
    r"auto\.commit\.interval\.ms|fetch\.(wait\.max|queue\.backoff|error\.backoff)\.ms|"
    r"fetch\.min\.bytes|enable\.random\.seed|produce\.offset\.report"
)
BEYOND_LIBRDKAFKA = {"default.topic.config", "logger"}  # of its binding
MAKERS = [clients.producer, clients.consumer, clients.admin]


@pytest.mark.parametrize("prefix", ["", "topic."])
@pytest.mark.parametrize("name", [*chain(*GUARANTEES.values()), *sorted(BEYOND_LIBRDKAFKA)])
def test_a_property_that_carries_a_guarantee_cannot_be_passed_through(name, prefix):
    for make in MAKERS:
        with pytest.raises(UserError, match=f"Kafka property {prefix}{name} cannot be set: "):
            make(Connection(NOWHERE, {prefix + name: "1"}))


def test_every_property_of_librdkafka_is_either_owned_or_carries_no_guarantee(tmp_path):
    """A property that a later release of librdkafka brings is decided on before it can be set."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    loaded = {line.split()[-1] for line in maps if "librdkafka" in line}
    library, libc = ctypes.CDLL(loaded.pop()), ctypes.CDLL(None)
    libc.fopen.restype = ctypes.c_void_p
    file = ctypes.c_void_p(libc.fopen(bytes(tmp_path / "properties"), b"w"))
    library.rd_kafka_conf_properties_show(file)
    libc.fclose(file)
    text = (tmp_path / "properties").read_text()
    known = set(re.findall(r"^([a-z][\w.]+) +\| +[CP*] +\|", text, re.M))
    owned = set(chain(*GUARANTEES.values()))
    assert len(known) > 150
    assert owned <= known
    assert not {name for name in known - owned if not PASSED.fullmatch(name)}
    assert clients._OWNED.keys() == owned | BEYOND_LIBRDKAFKA


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("name", ["error_cb", "oauth_cb", "throttle_cb"])
def test_a_callback_that_is_given_as_text_is_refused_in_a_sentence(make, name):
    with pytest.raises(UserError, match=f"the Kafka client cannot be made: expected {name}"):
        make(Connection(NOWHERE, {name: "1"}))


def test_a_missing_certificate_file_is_one_sentence_and_nothing_on_stderr(capfd, tmp_path):
    given = {"security.protocol": "SSL", "ssl.ca.location": str(tmp_path / "nowhere.pem")}
    with pytest.raises(
        UserError, match=r"the Kafka client cannot be made: ssl\.ca\.location failed"
    ):
        clients.admin(Connection(NOWHERE, given))
    assert capfd.readouterr().err == ""


def test_where_nothing_listens_the_sentence_names_the_address_and_the_fix(capfd):
    assert unreachable("127.0.0.1:1").startswith(
        "nothing listens at 127.0.0.1:1: start a broker (murmurec broker start)"
    )
    assert capfd.readouterr().err == ""


def test_of_several_addresses_one_that_refuses_is_not_the_answer_at_once():
    began = time.monotonic()
    sentence = unreachable("127.0.0.1:1,127.0.0.1:2", seconds=1.5)
    assert time.monotonic() - began >= 1.5
    assert sentence.startswith("nothing listens at 127.0.0.1:1,127.0.0.1:2")


def test_an_unknown_host_is_named():
    assert "the host name of murmurec.invalid:9092 is not known" in unreachable(
        "murmurec.invalid:9092"
    )


@contextmanager
def serving(answer):
    """Listen on a free port and give each connection to `answer` in a thread of its own."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                threading.Thread(target=answer, args=(connection,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


class Quiet(http.server.BaseHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


def test_a_web_server_is_not_taken_for_kafka():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        address = f"127.0.0.1:{server.server_port}"
        assert unreachable(address).startswith(f"what listens at {address} is not Kafka")
        assert "does not speak TLS" in unreachable(address, {"security.protocol": "SSL"})
        server.shutdown()


def test_a_silent_port_is_reported_as_not_kafka():
    held = []
    with serving(held.append) as address:
        assert "does not answer as Kafka does" in unreachable(address)
        for connection in held:
            connection.close()


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """Make a certificate of its own authority, for 127.0.0.1; return (certificate, key)."""
    home = tmp_path_factory.mktemp("tls")
    files = home / "certificate.pem", home / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
            *("-out", str(files[0]), "-keyout", str(files[1])),
        ],
        check=True,
        capture_output=True,
    )
    return files


@pytest.fixture
def tls(certificate):
    """Give the address of a server that completes a TLS handshake and then hangs up."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)

    def answer(connection):
        try:
            with connection, context.wrap_socket(connection, server_side=True) as secure:
                secure.recv(100)
        except OSError:
            return

    with serving(answer) as address:
        yield address


def test_a_plain_client_of_a_tls_port_is_asked_to_speak_tls(tls):
    assert "expects TLS: set security.protocol to SSL or SASL_SSL" in unreachable(tls)


def test_a_certificate_that_is_not_trusted_is_reported(tls):
    sentence = unreachable(tls, {"security.protocol": "SSL"})
    assert "not signed by an authority this machine trusts: set ssl.ca.location" in sentence


def test_a_tls_server_that_is_not_kafka_is_reported_as_such(tls, certificate):
    given = {"security.protocol": "SSL", "ssl.ca.location": str(certificate[0])}
    assert "is not Kafka" in unreachable(tls, given)


@pytest.mark.kafka
def test_a_broker_that_answers_lists_its_nodes(kafka):
    assert clients.describe_cluster(kafka.connection).brokers


@pytest.mark.kafka
def test_a_secure_client_of_a_plain_broker_learns_what_to_set(kafka):
    assert "does not speak TLS" in unreachable(kafka.bootstrap, {"security.protocol": "SSL"})
    assert "asks for no password on this port" in unreachable(kafka.bootstrap, SASL)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """Give the address of a real broker's listener that asks for ann's password."""
    port, sasl_port, controller = local.free_ports(3)
    listeners = (
        f"PLAINTEXT://127.0.0.1:{port},SASL_PLAINTEXT://127.0.0.1:{sasl_port},"
        f"CONTROLLER://127.0.0.1:{controller}"
    )
    overrides = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "controller.quorum.bootstrap.servers": f"127.0.0.1:{controller}",
        "listener.security.protocol.map": (
            "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
        ),
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
            'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="right";'
        ),
    }
    with local.run(tmp_path_factory.mktemp("guarded"), cache_dir(), port, overrides):
        yield f"127.0.0.1:{sasl_port}"


@pytest.mark.thorough
@pytest.mark.kafka
def test_the_right_password_reaches_the_broker(guarded):
    assert clients.describe_cluster(Connection(guarded, SASL)).brokers


@pytest.mark.kafka
def test_a_wrong_password_is_reported_and_not_repeated(guarded, capfd):
    sentence = unreachable(guarded, SASL | {"sasl.password": "hunter2"}, seconds=30)
    assert "refuses the user name or password" in sentence
    assert "hunter2" not in sentence
    assert capfd.readouterr().err == ""


@pytest.mark.kafka
def test_a_sasl_mechanism_that_is_not_offered_is_reported_with_the_offered_one(guarded):
    sentence = unreachable(guarded, SASL | {"sasl.mechanism": "SCRAM-SHA-512"}, seconds=30)
    assert "set it to PLAIN" in sentence


@pytest.mark.kafka
def test_a_client_without_a_password_is_refused_with_the_reason(guarded):
    sentence = unreachable(guarded, seconds=3)
    assert "closes the connection of a client without a password" in sentence


@pytest.mark.kafka
def test_with_partition_eof_a_consumer_reports_the_end(kafka, topics):
    from confluent_kafka import KafkaError, TopicPartition

    consumer = clients.consumer(kafka.connection, partition_eof=True, fetch_wait_max_ms=10)
    consumer.assign([TopicPartition(f"{topics}.cuts.v1", 0, 0)])
    message = consumer.poll(10)
    consumer.close()
    assert message.error().code() == KafkaError._PARTITION_EOF
