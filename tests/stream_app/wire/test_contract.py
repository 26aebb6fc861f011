"""The wire contract: golden bytes, reasons for rejection, and decoders raise only WireError."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from stream_app import wire
from stream_app.wire import Event, Intake, Reason, RecordRun, WireError
from stream_app.wire import batch_decoding as batches
from stream_app.wire.topics import FEATURES, absent

INTAKE = Intake({"rr:5:2": 5, "none:5:inf": 5})
DEVICE = bytes.fromhex("000102030405060708090a0b0c0d0e0f")
ITEMS = np.array([1193, 661], np.uint64)
REPORTS = np.array([4, 0], np.uint8)
EVENT = Event(DEVICE, 7, "rr:5:2", 20_000, ITEMS, REPORTS)
PARTITION = int(wire.partitions_of(np.frombuffer(EVENT.key, np.uint8).reshape(1, 32), 4)[0])

GOLDEN_JSON = (
    b'{"v":1,"device":"000102030405060708090a0b0c0d0e0f","seq":7,"mechanism":"rr:5:2",'
    b'"epoch":20000,"items":[1193,661],"reports":[4,0]}'
)
GOLDEN_PACKED = bytes.fromhex(
    "88a17601a6646576696365c410000102030405060708090a0b0c0d0e0fa373657107a96d656368616e69736d"
    "a672723a353a32a565706f6368cd4e20a56974656d73c410a9040000000000009502000000000000a7726570"
    "6f727473c4020400a474657374c2"
)


def decode(value: bytes | None, key: bytes | None = EVENT.key, intake: Intake = INTAKE) -> Event:
    return wire.decode(key, value, PARTITION, intake)


def json_event(**changes: object) -> bytes:
    fields = msgspec.json.decode(GOLDEN_JSON)
    fields.update(changes)
    return msgspec.json.encode({k: v for k, v in fields.items() if v is not ...})


def packed_event(**changes: object) -> bytes:
    fields = msgspec.msgpack.decode(GOLDEN_PACKED)
    fields.update(changes)
    return msgspec.msgpack.encode({k: v for k, v in fields.items() if v is not ...})


def same(a: Event, b: Event) -> bool:
    return (
        (a.device, a.seq, a.mechanism, a.epoch, a.test)
        == (b.device, b.seq, b.mechanism, b.epoch, b.test)
        and a.items.tolist() == b.items.tolist()
        and a.reports.tolist() == b.reports.tolist()
    )


def test_the_bytes_of_both_encodings_are_golden() -> None:
    assert wire.encode_json(EVENT) == GOLDEN_JSON
    assert wire.encode(EVENT) == GOLDEN_PACKED
    assert same(decode(GOLDEN_JSON), EVENT)
    assert same(decode(GOLDEN_PACKED), EVENT)


def test_the_key_of_an_item_is_golden() -> None:
    assert wire.key(1193) == 1193
    assert wire.key("tt0111161") == 0xD6888699D9AA5A3F
    assert wire.key("a") == 0xC0F89E395B66422F


def test_string_items_are_written_by_name_and_read_by_key() -> None:
    keys = np.array([wire.key("käse"), 5], np.uint64)
    event = Event(DEVICE, 1, "rr:5:2", 1, keys, REPORTS)
    assert decode(wire.encode_json(event, ["käse", 5])).items.tolist() == keys.tolist()
    with pytest.raises(ValueError, match="by name"):
        wire.encode_json(event, ["brot", 5])


@pytest.mark.parametrize(
    ("item", "sentence"),
    [
        (-1, "0 .. 2"),
        (2**63, "0 .. 2"),
        ("", "1 to 128 bytes"),
        ("x" * 129, "1 to 128 bytes"),
        ("\ud800", "surrogate"),
        (True, "integer or a string"),
        (1.0, "integer or a string"),
    ],
)
def test_an_invalid_item_is_refused(item: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        wire.key(item)  # type: ignore[arg-type]


def test_partitions_equal_those_of_kafka() -> None:
    """Reference values of org.apache.kafka.common.utils.Utils.murmur2 on 32-byte keys, computed
    with plain integers."""
    rng = np.random.default_rng(5)
    keys = [rng.bytes(16).hex().encode() for _ in range(200)]
    expected = [(murmur2(key) & 0x7FFFFFFF) % 12 for key in keys]
    columns = np.frombuffer(b"".join(keys), np.uint8).reshape(-1, 32)
    assert wire.partitions_of(columns, 12).tolist() == expected


def murmur2(data: bytes) -> int:
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    h = (0x9747B28C ^ len(data)) & mask
    for i in range(0, len(data) - len(data) % 4, 4):
        k = int.from_bytes(data[i : i + 4], "little") * m & mask
        k = (k ^ (k >> 24)) * m & mask
        h = (h * m & mask) ^ k
    assert len(data) % 4 == 0
    h = (h ^ (h >> 13)) * m & mask
    return h ^ (h >> 15)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b"", 275646681),
        (b"a-little-bit-long-string", -985981536),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    ],
)
def test_the_plain_murmur2_passes_kafkas_own_test_vectors(text: bytes, value: int) -> None:
    assert murmur2(text) == value & 0xFFFFFFFF


NOT_EVENTS: list[tuple[str, bytes | None, Reason]] = [
    ("null", None, Reason.EMPTY),
    ("empty", b"", Reason.EMPTY),
    ("too large", b"{" + b" " * wire.MAX_EVENT_BYTES, Reason.TOO_LARGE),
    ("10 MB", b"\x87" * 10_000_000, Reason.TOO_LARGE),
    ("json one byte short", GOLDEN_JSON[:-1], Reason.MALFORMED),
    ("json one byte long", GOLDEN_JSON + b"}", Reason.MALFORMED),
    ("two events in one record", GOLDEN_JSON + b"," + GOLDEN_JSON, Reason.MALFORMED),
    ("packed one byte short", GOLDEN_PACKED[:-1], Reason.MALFORMED),
    ("packed one byte long", GOLDEN_PACKED + b"\x00", Reason.MALFORMED),
    ("utf-16", GOLDEN_JSON.decode().encode("utf-16"), Reason.MALFORMED),
    ("deep nesting", b'{"v":' + b"[" * 60_000, Reason.MALFORMED),
    ("deep packed nesting", b"\x91" * 60_000, Reason.MALFORMED),
    ("random bytes", bytes(range(256)), Reason.MALFORMED),
    ("a list", b"[1]", Reason.MALFORMED),
    ("future version", json_event(v=2, more=1), Reason.UNKNOWN_VERSION),
    ("future packed version", packed_event(v=2), Reason.UNKNOWN_VERSION),
    ("no version", json_event(v=...), Reason.MALFORMED),
    ("unknown field", json_event(rating=5), Reason.MALFORMED),
    ("unknown mechanism", json_event(mechanism="magic:5:1"), Reason.MECHANISM_NOT_ALLOWED),
    ("epsilon of 100", json_event(mechanism="rr:5:100"), Reason.MECHANISM_NOT_ALLOWED),
    ("report outside", json_event(reports=[4, 5]), Reason.REPORT_OUTSIDE_ALPHABET),
    ("packed report outside", packed_event(reports=b"\x04\xff"), Reason.REPORT_OUTSIDE_ALPHABET),
    ("report of 256", json_event(reports=[4, 256]), Reason.MALFORMED),
    ("negative report", json_event(reports=[4, -1]), Reason.MALFORMED),
    ("more items than reports", json_event(items=[1, 2, 3]), Reason.LENGTH_MISMATCH),
    ("fewer packed items", packed_event(items=bytes(8)), Reason.LENGTH_MISMATCH),
    ("items cut short", packed_event(items=bytes(15)), Reason.BAD_ITEM),
    ("no items", json_event(items=[], reports=[]), Reason.MALFORMED),
    ("item -1", json_event(items=[-1, 2]), Reason.MALFORMED),
    ("item 2^63", json_event(items=[2**63, 2]), Reason.MALFORMED),
    ("item 2^64", json_event(items=[2**64, 2]), Reason.MALFORMED),
    ("item with long text", json_event(items=["ä" * 100, 2]), Reason.BAD_ITEM),
    ("item true", json_event(items=[True, 2]), Reason.MALFORMED),
    ("too many ratings", json_event(items=[1] * 4097, reports=[1] * 4097), Reason.MALFORMED),
    ("seq 0", json_event(seq=0), Reason.MALFORMED),
    ("seq text", json_event(seq="7"), Reason.MALFORMED),
    ("seq 2^63", json_event(seq=2**63), Reason.MALFORMED),
    ("negative epoch", json_event(epoch=-1), Reason.MALFORMED),
    ("device of 31", json_event(device="0" * 31), Reason.MALFORMED),
    ("device in capitals", json_event(device=DEVICE.hex().upper()), Reason.BAD_DEVICE),
    ("device with spaces", json_event(device="0 " * 16), Reason.BAD_DEVICE),
    ("device not hex", json_event(device="x" * 32), Reason.BAD_DEVICE),
    ("another device", json_event(device="f" * 32), Reason.KEY_MISMATCH),
    ("test event", json_event(test=True), Reason.TEST_EVENT),
    ("packed test event", packed_event(test=True), Reason.TEST_EVENT),
]


@pytest.mark.parametrize(("name", "value", "reason"), NOT_EVENTS, ids=[n for n, _, _ in NOT_EVENTS])
def test_an_invalid_event_is_rejected_with_its_reason(
    name: str, value: bytes | None, reason: Reason
) -> None:
    with pytest.raises(WireError) as raised:
        decode(value)
    assert raised.value.reason is reason
    batch = wire.decode_many(RecordRun(PARTITION, [0], [EVENT.key], [value]), INTAKE)
    assert wire.REASONS[batch.reasons[0]] is reason


def test_a_record_key_other_than_the_device_is_rejected() -> None:
    for key in (None, b"", EVENT.key.upper(), EVENT.key[:-1], b"0" * 32, DEVICE):
        with pytest.raises(WireError, match="key_mismatch"):
            decode(GOLDEN_JSON, key)


def test_a_record_on_another_partition_is_rejected() -> None:
    with pytest.raises(WireError, match="wrong_partition"):
        wire.decode(EVENT.key, GOLDEN_JSON, (PARTITION + 1) % 4, INTAKE)


def test_test_events_are_accepted_if_the_intake_allows_them() -> None:
    assert decode(json_event(test=True), intake=Intake({"rr:5:2": 5}, accept_tests=True)).test


@settings(max_examples=1000, deadline=None)
@given(st.binary(max_size=400))
def test_random_bytes_raise_nothing_but_wire_errors(value: bytes) -> None:
    with pytest.raises(WireError):
        decode(value)
    for kind in (wire.Cut, wire.Query, wire.Recommendation, wire.CatalogueEntry):
        with pytest.raises(WireError):
            wire.decode_message(kind, value)


@settings(max_examples=1000, deadline=None)
@given(st.sampled_from([GOLDEN_JSON, GOLDEN_PACKED]), st.data())
def test_flipped_bits_raise_nothing_but_wire_errors(value: bytes, data: st.DataObject) -> None:
    flipped = bytearray(value)
    for place in data.draw(st.lists(st.integers(0, 8 * len(value) - 1), min_size=1, max_size=3)):
        flipped[place // 8] ^= 1 << place % 8
    try:
        event = decode(bytes(flipped))
    except WireError:
        return
    assert event.device == DEVICE
    assert int(event.reports.max()) < 5


def one(value: bytes | None) -> tuple[Event | None, Reason]:
    """Decode one record, or return the reason for its rejection."""
    try:
        return decode(value), Reason.ACCEPTED
    except WireError as error:
        return None, error.reason


SOME_RECORDS = st.lists(
    st.one_of(
        st.sampled_from(
            [GOLDEN_JSON, GOLDEN_PACKED, json_event(items=["a", 2]), packed_event(seq=9)]
        ),
        st.sampled_from([value for _, value, _ in NOT_EVENTS if not value or len(value) < 1000]),
        st.sampled_from(
            [
                GOLDEN_JSON + b",",
                b" " + GOLDEN_JSON,
                b'"x"',
                b'"x",' + GOLDEN_JSON,
                GOLDEN_JSON[:60],
                GOLDEN_JSON[60:],
            ]
        ),
    ),
    max_size=8,
)


@settings(max_examples=400, deadline=None)
@given(SOME_RECORDS)
@example([GOLDEN_JSON, b'"x"'])
@example([GOLDEN_JSON, b" " + GOLDEN_JSON])
def test_a_batch_decodes_like_its_records_one_by_one(values: list[bytes | None]) -> None:
    batch = wire.decode_many(
        RecordRun(PARTITION, range(len(values)), [EVENT.key] * len(values), values), INTAKE
    )
    at = 0
    for i, value in enumerate(values):
        event, reason = one(value)
        assert wire.REASONS[batch.reasons[i]] is reason
        if event is None:
            assert batch.counts[i] == 0
            continue
        assert batch.devices[i].astype("<u8").tobytes() == event.device
        assert batch.seqs[i] == event.seq
        assert list(INTAKE.mechanisms)[batch.mechanisms[i]] == event.mechanism
        count = int(batch.counts[i])
        assert batch.items[at : at + count].tolist() == event.items.tolist()
        assert batch.reports[at : at + count].tolist() == event.reports.tolist()
        at += count
    assert at == batch.ratings
    assert batch.sizes.tolist() == [len(v) if v else 0 for v in values]


def test_a_valid_batch_is_decoded_in_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*_: object) -> None:
        raise AssertionError("record by record")

    monkeypatch.setattr(batches, "_decode_each", slow)
    for value in (GOLDEN_JSON, GOLDEN_PACKED):
        batch = wire.decode_many(RecordRun(PARTITION, [0, 1], [EVENT.key] * 2, [value] * 2), INTAKE)
        assert batch.ratings == 4


@pytest.mark.parametrize(
    "changes",
    [
        {"device": b"short"},
        {"seq": 0},
        {"epoch": 2**32},
        {"reports": np.zeros(3, np.uint8)},
        {"items": np.empty(0, np.uint64), "reports": np.empty(0, np.uint8)},
    ],
    ids=str,
)
def test_an_invalid_event_cannot_be_constructed(changes: dict[str, object]) -> None:
    fields: dict[str, object] = vars(EVENT) | changes
    with pytest.raises(ValueError, match=r"must|has"):
        Event(**fields)  # type: ignore[arg-type]


def test_each_of_several_shards_has_four_partitions_of_the_queries_or_more() -> None:
    for partitions, shards, queries in ((6, 1, 6), (6, 2, 8), (6, 3, 12), (24, 3, 24)):
        topics = wire.Topics("x", shards)
        counts = {topic.name: topic.partitions for topic in topics.table(partitions)}
        assert counts[topics.queries] == counts[topics.recommendations] == queries


def test_every_topic_is_once_in_the_table_and_carries_a_version() -> None:
    topics = wire.Topics("x")
    names = [topic.name for topic in topics.table(6)]
    every = [name for name, value in vars(wire.Topics).items() if isinstance(value, property)]
    assert sorted(names) == sorted(getattr(topics, name) for name in every)
    assert all(name.startswith("x.") and name.endswith(".v1") for name in names)
    ratings = topics.table(6)[0]
    assert (ratings.name, ratings.partitions) == (topics.ratings, 6)
    assert ratings.config["retention.ms"] == "-1"
    counts = {topic.name: topic.partitions for topic in topics.table(6, query_partitions=2)}
    assert counts[topics.ratings] == counts[topics.contributions] == 6
    assert counts[topics.queries] == counts[topics.recommendations] == 2
    with pytest.raises(ValueError, match="prefix"):
        wire.Topics("no spaces")


def test_each_feature_adds_its_own_topics_to_those_of_every_deployment() -> None:
    topics = wire.Topics("x")
    plain = {topic.name for topic in topics.table(features=())}
    added = {
        feature: {t.name.split(".")[1] for t in topics.table(features=[feature])}
        - {name.split(".")[1] for name in plain}
        for feature in FEATURES
    }
    assert added == {
        "campaigns": {"contributions", "rounds", "item-side"},
        "shards": {"exchange"},
    }
    assert topics.table(features=FEATURES) == topics.table()


def test_the_sentence_for_an_absent_topic_names_the_setting_of_its_feature() -> None:
    names = wire.Topics("a.b")
    assert absent(names.cuts) == (
        "topic a.b.cuts.v1 does not exist: create it with murmurec topics apply"
    )
    assert absent(names.exchange).endswith("topics apply under the setting shards above 1")


QUERY = {"id": "0" * 16, "user": "0" * 32, "k": 10, "deadline": 1, "v": 1}


@pytest.mark.parametrize(
    "changes",
    [
        {"k": 0},
        {"k": -1},
        {"k": 10**9},
        {"k": "10"},
        {"k": 1.5},
        {"user": "0" * 31},
        {"user": "G" * 32},
        {"id": "x"},
        {"id": "0" * 65},
        {"deadline": -1},
        {"filter": list(range(100))},
        {"reply_to": "secret-topic"},
        {"similar_to": -1},
        {"similar_to": ""},
        {"similar_to": None},
        {"similar_to": [5]},
        {"similar_to": "x" * 129},
        {"for": "later"},
        {"for": None},
        {"for": True},
        {"for_": "now"},
    ],
    ids=str,
)
def test_a_bad_query_is_refused(changes: dict[str, object]) -> None:
    assert wire.decode_message(wire.Query, msgspec.json.encode(QUERY)).k == 10
    with pytest.raises(WireError):
        wire.decode_message(wire.Query, msgspec.json.encode(QUERY | changes))


GOLDEN_QUERY = (
    b'{"id":"0000000000000000","user":"11111111111111111111111111111111","k":10,"deadline":5%b,'
    b'"v":1}'
)


@pytest.mark.parametrize(
    ("options", "golden"),
    [
        ({}, b""),
        ({"similar_to": 1193}, b',"similar_to":1193'),
        ({"similar_to": "tt01"}, b',"similar_to":"tt01"'),
        ({"for_": "now"}, b',"for":"now"'),
        ({"for_": "next"}, b',"for":"next"'),
        ({"reply_key": "ab" * 32}, b',"reply_key":"%b"' % (b"ab" * 32)),
    ],
    ids=str,
)
def test_a_query_has_these_bytes(options: dict[str, Any], golden: bytes) -> None:
    """Without an option those of earlier releases, whose workers refuse unknown fields."""
    query = wire.Query("0" * 16, "1" * 32, 10, 5, **options)
    assert wire.encode_message(query) == GOLDEN_QUERY % golden
    assert wire.decode_message(wire.Query, GOLDEN_QUERY % golden) == query
    assert query.options == tuple(name.rstrip("_") for name in options if name != "reply_key")


@pytest.mark.parametrize("key", ["", "ab" * 31, "ab" * 33, "AB" * 32, "é" * 64, 7, None], ids=str)
def test_a_query_whose_key_has_another_length_or_form_is_malformed(key: object) -> None:
    value = msgspec.json.encode(
        {"id": "0" * 16, "user": None, "k": 1, "deadline": 5, "reply_key": key}
    )
    with pytest.raises(WireError) as error:
        wire.decode_message(wire.Query, value)
    assert error.value.reason is Reason.MALFORMED


def test_a_query_for_no_user_has_these_bytes() -> None:
    query = wire.Query("0" * 16, None, 10, 5, similar_to=7)
    golden = b'{"id":"0000000000000000","user":null,"k":10,"deadline":5,"similar_to":7,"v":1}'
    assert wire.encode_message(query) == golden
    assert wire.decode_message(wire.Query, golden) == query


REPLY = wire.Recommendation(
    "0" * 16, wire.Status.OK, (5, "a"), (4.5, 1.0), "ease", 3, "local",
    because=(7, None),
)  # fmt: skip
GOLDEN_REPLY = (
    b'{"id":"0000000000000000","status":"ok","items":[5,"a"],"scores":[4.5,1.0],"method":"ease",'
    b'"as_of":3,"privacy":"local","catching_up":false,"ndcg":null,"ndcg_popular":null%b,"v":1}'
)
GOLDEN_NEW = b',"because":[7,null],"reason":null'


def test_a_reply_has_these_bytes_and_one_of_an_earlier_release_is_read() -> None:
    assert wire.encode_message(REPLY) == GOLDEN_REPLY % GOLDEN_NEW
    assert wire.decode_message(wire.Recommendation, GOLDEN_REPLY % GOLDEN_NEW) == REPLY
    earlier = wire.decode_message(wire.Recommendation, GOLDEN_REPLY % b"")
    assert (earlier.because, earlier.reason) == ((), None)
    assert earlier.items == REPLY.items


def test_a_reply_for_a_user_says_the_visit_and_any_other_has_the_bytes_of_before() -> None:
    reply = msgspec.structs.replace(REPLY, for_="now")
    golden = GOLDEN_REPLY % (GOLDEN_NEW + b',"for":"now"')
    assert wire.encode_message(reply) == golden
    assert wire.decode_message(wire.Recommendation, golden) == reply
    assert REPLY.for_ is msgspec.UNSET


@pytest.mark.parametrize(
    "changes",
    [
        {"because": [None] * 101},
        {"because": [1.5]},
        {"reason": "a\nb"},
        {"reason": "x" * 241},
        {"for": "later"},
        {"for": None},
    ],
    ids=str,
)
def test_a_bad_reply_is_rejected(changes: dict[str, object]) -> None:
    value = msgspec.json.encode(msgspec.json.decode(GOLDEN_REPLY % GOLDEN_NEW) | changes)
    with pytest.raises(WireError):
        wire.decode_message(wire.Recommendation, value)


def test_messages_round_trip() -> None:
    nothing = (None,) * wire.LIST_LENGTH
    for message in (
        wire.Cut(3, (1, 2, 3), 20_000),
        wire.Query("0" * 16, "0" * 32, 5, 1),
        wire.Recommendation("0" * 16, wire.Status.OK, nothing, nothing, "exact", 3, "local"),
        wire.Rejection("t", 1, 2, Reason.EMPTY, 0),
        wire.CatalogueEntry("x", "Title", ("a",), 1995, True),
    ):
        assert wire.decode_message(type(message), wire.encode_message(message)) == message


ENTRY = wire.CatalogueEntry(5, "Five (1995)", ("Comedy", "Film-Noir"), 1995)
GOLDEN_ENTRY = (
    b'{"item":5,"title":"Five (1995)","genres":["Comedy","Film-Noir"],"year":1995,'
    b'"withdrawn":false,"v":1}'
)


def test_an_entry_of_the_catalogue_has_these_bytes() -> None:
    assert wire.encode_message(ENTRY) == GOLDEN_ENTRY
    assert wire.decode_catalogue_entry(b"5", GOLDEN_ENTRY) == ENTRY


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"genres": ["Drama", "Drama"]}, Reason.MALFORMED),
        ({"genres": [""]}, Reason.MALFORMED),
        ({"genres": [" Drama"]}, Reason.MALFORMED),
        ({"genres": ["Drama\n"]}, Reason.MALFORMED),
        ({"genres": ["\x1b[2J"]}, Reason.MALFORMED),
        ({"genres": ["\u202edrama"]}, Reason.MALFORMED),
        ({"genres": ["x" * 51]}, Reason.MALFORMED),
        ({"genres": [str(number) for number in range(17)]}, Reason.MALFORMED),
        ({"genres": "Drama"}, Reason.MALFORMED),
        ({"genres": [7]}, Reason.MALFORMED),
        ({"genres": None}, Reason.MALFORMED),
        ({"categories": ["Drama"]}, Reason.MALFORMED),
        ({"year": 0}, Reason.MALFORMED),
        ({"year": -44}, Reason.MALFORMED),
        ({"year": 10_000}, Reason.MALFORMED),
        ({"year": 2**64}, Reason.MALFORMED),
        ({"year": 1995.5}, Reason.MALFORMED),
        ({"year": "1995"}, Reason.MALFORMED),
        ({"year": True}, Reason.MALFORMED),
        ({"title": "x" * 501}, Reason.MALFORMED),
        ({"weight": 1}, Reason.MALFORMED),
        ({"item": "ä" * 65}, Reason.BAD_ITEM),
        ({"item": 6}, Reason.KEY_MISMATCH),
        ({"v": 2}, Reason.UNKNOWN_VERSION),
    ],
    ids=str,
)
def test_a_bad_entry_of_the_catalogue_is_rejected_with_its_reason(
    changes: dict[str, object], reason: Reason
) -> None:
    record_key = str(changes.get("item", 5)).encode() if reason is Reason.BAD_ITEM else b"5"
    value = msgspec.json.encode(msgspec.json.decode(GOLDEN_ENTRY) | changes)
    with pytest.raises(WireError, match=reason):
        wire.decode_catalogue_entry(record_key, value)
