"""Parsers of JSON events at equal strictness: bytes of a run to the columns of a batch.

Every contender refuses what `wire.decode` refuses. What orjson and simdjson leave to the caller is
added here in Python, as a server would have to: types (an `int` that is no `bool`), ranges, lengths
and the set of fields; of two fields of one name all keep the last. They are let off the optional
fields and items by name. "by ..., parse alone" is their parser without any check and without
columns: the most that another way of checking could gain.

`simdjson` is pysimdjson. msgspec and the scanner are `wire.decode_many` without and with
`scan_events`. Contenders alternate in one process; a run is of 512 records.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_app import wire
from stream_app.kernels.stream.event_text import scan_events
from stream_app.wire.batch_decoding import Scan
from stream_app.wire.limits import MAX_EVENT_BYTES, MAX_RATINGS, MAX_SEQ, VERSION
from tests.benchmarks.contest import Contender, contest, not_installed, peer
from tests.benchmarks.figure import Figure
from tests.benchmarks.pipeline import Load, messages

MECHANISM = "none:5:inf"
INTAKE = wire.Intake({MECHANISM: 5}, partitions=1)
SIZES = (1, 2, 5, 20, 200)
RECORDS, REPEATS = 512, 20  # of a run, and runs in a round
FIELDS = frozenset(("v", "device", "seq", "mechanism", "epoch", "items", "reports"))

Parse = Callable[[bytes], Any]
Columns = tuple[NDArray[Any], ...]


def measure() -> list[Figure]:
    """Return the cost of every parser, and the rates by message size."""
    figures = []
    for each in SIZES:
        run = run_of(each)
        ways: dict[str, Callable[[Any], object]] = {
            "msgspec": partial(ours, run, None),
            "own scanner": partial(ours, run, scan_events),
        }
        for name, module, parse in peers():
            if parse is None:
                figures.append(not_installed(f"decode by {name}", module))
            else:
                ways[name] = partial(repeated, run, parse)
                ways[f"{name}, parse alone"] = partial(parsed, run, parse)
        figures += _figures(each, ways)
    return figures


def _figures(each: int, ways: dict[str, Callable[[Any], object]]) -> list[Figure]:
    records = RECORDS * REPEATS
    taken = contest([Contender(name, way, records) for name, way in ways.items()])
    unit = "rating" if each == 1 else "ratings"
    figures = []
    for name, seconds in taken.items():
        label = f"decode JSON of {each} {unit} by {name}"
        figures.append(Figure(label, seconds.median * 1e9, "ns/record"))
        rate = each / seconds.median / 1e6
        if not name.endswith("alone"):
            figures.append(Figure(f"message decoded by {name}, {each} {unit}", rate, "M ratings/s"))
        if name != "msgspec":
            target = ">= 1.5" if (name, each) == ("own scanner", 1) else ""
            label += ", times faster than msgspec"
            figures.append(seconds.times_faster_than(taken["msgspec"], label, target))
    return figures


def run_of(each: int) -> wire.RecordRun:
    """Return a run of messages of so many ratings."""
    pairs = list(messages(Load(each, RECORDS * each, MECHANISM, "", json=True)))
    keys, values = [key for key, _ in pairs], [value for _, value in pairs]
    return wire.RecordRun(0, range(RECORDS), keys, values)


def ours(run: wire.RecordRun, scan: Scan | None, _: object = None) -> None:
    """Decode a run as a worker does, with the scanner or without."""
    for _ in range(REPEATS):
        if wire.decode_many(run, INTAKE, scan).reasons.any():
            raise RuntimeError("an event of the benchmark was rejected: there is no rate")


def repeated(run: wire.RecordRun, parse: Parse, _: object = None) -> None:
    """Decode a run by a peer's parser."""
    for _ in range(REPEATS):
        checked(run, parse)


def parsed(run: wire.RecordRun, parse: Any, _: object = None) -> None:
    """Parse a run by a peer's parser, and look at nothing."""
    for _ in range(REPEATS):
        for value in run.values:
            parse(value)


def peers() -> list[tuple[str, str, Parse | None]]:
    """Return name, module and parser of each peer; None where it is not installed."""
    orjson, simdjson = peer("orjson"), peer("simdjson")
    return [
        ("orjson", "orjson", orjson and orjson.loads),
        ("simdjson", "simdjson", simdjson and partial(_as_objects, simdjson.Parser())),
    ]


def _as_objects(parser: Any, value: bytes) -> Any:
    return parser.parse(value, True)


def checked(run: wire.RecordRun, parse: Parse) -> Columns:
    """Return devices, seqs, mechanisms, epochs, counts, items and reports of a run; ValueError if
    a record of it is to be refused."""
    events = [_event(value, parse) for value in run.values]
    keys = b"".join(run.keys)  # type: ignore[arg-type]
    devices = "".join([event["device"] for event in events])
    pseudonyms = bytes.fromhex(devices)
    if devices.encode() != keys or pseudonyms.hex() != devices:
        raise ValueError("a device differs from its record key")
    homes = wire.partitions_of(np.frombuffer(keys, np.uint8).reshape(-1, 32), INTAKE.partitions)
    if (homes != run.partition).any():
        raise ValueError("a record is on another partition")
    mechanisms = np.array([INTAKE.index[event["mechanism"]] for event in events], np.uint8)
    counts = np.array([len(event["items"]) for event in events], np.int64)
    items = np.array([item for event in events for item in event["items"]], np.uint64)
    reports = np.array([report for event in events for report in event["reports"]], np.uint8)
    alphabets = np.array(list(INTAKE.mechanisms.values()), np.int64)
    if (reports >= np.repeat(alphabets[mechanisms], counts)).any():
        raise ValueError("a report is outside of its alphabet")
    return (
        np.frombuffer(pseudonyms, "<u8").reshape(-1, 2),
        np.array([event["seq"] for event in events], np.int64),
        mechanisms,
        np.array([event["epoch"] for event in events], np.int64),
        counts,
        items,
        reports,
    )


def _event(value: bytes | None, parse: Parse) -> dict[str, Any]:
    """Return the fields of a record, if they are those of one event of integers."""
    if not value or len(value) > MAX_EVENT_BYTES or value[0] != 0x7B:
        raise ValueError("not a JSON event")
    event = parse(value)
    if event.keys() != FIELDS:
        raise ValueError("other fields than those of an event")
    mechanism, device = event["mechanism"], event["device"]
    items, reports = event["items"], event["reports"]
    if type(mechanism) is not str or type(device) is not str or mechanism not in INTAKE.index:
        raise ValueError("a text is missing, or a mechanism not allowed")
    if len(device) != 32:
        raise ValueError("a device of another length")
    _numbers([event["v"]], VERSION, VERSION)
    _numbers([event["seq"]], 1, MAX_SEQ)
    _numbers([event["epoch"]], 0, 2**32 - 1)
    if type(items) is not list or type(reports) is not list or len(items) != len(reports):
        raise ValueError("not one report for each item")
    if not 1 <= len(items) <= MAX_RATINGS:
        raise ValueError("too few or too many ratings")
    _numbers(items, 0, 2**63 - 1)
    _numbers(reports, 0, 255)
    return event  # type: ignore[no-any-return]


def _numbers(values: list[Any], least: int, most: int) -> None:
    if set(map(type, values)) != {int} or min(values) < least or max(values) > most:
        raise ValueError(f"not integers in {least} .. {most}")
