"""Signatures: checks a second and core, what they add to decoding, what signing costs a device."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np

from stream_app import wire
from stream_app.replay.signature_check import SignatureCheck
from stream_app.wire import Event, Intake, RecordRun
from stream_app.wire.signatures import Claim, Signatures, SigningKey, opened
from stream_app.wire.signatures.envelope import verify_each
from tests.benchmarks.figure import Figure

TOPIC = "murmurec.ratings.v1"
RECORDS = 1024
ROUNDS = 5
FORMS = ((1, True, "one rating, JSON"), (20, False, "20 packed"), (200, False, "200 packed"))


def measure() -> list[Figure]:
    """Return rates per processor second, the best of several runs."""
    check = SignatureCheck(1)
    try:
        return [*_checks(check), *_decoded(check), _signed()]
    finally:
        check.close()


def _checks(check: SignatureCheck) -> Iterator[Figure]:
    claims: list[Claim] = []
    runs = _runs(1, as_json=True)
    opened(runs[1].keys, runs[1].values, Signatures(TOPIC, True, _kept(claims)), 10**6)
    alone = _best(lambda: check(claims), time.process_time)
    yield Figure("signatures checked, a core", RECORDS / alone / 1e3, "k/s", ">= 20")
    with _busy_interpreter():
        each = _best(lambda: verify_each(claims[:64]), time.perf_counter)
        together = _best(lambda: check(claims[:64]), time.perf_counter)
    yield Figure("the same beside a busy thread, one call each", 0.064 / each, "k/s")
    yield Figure("the same beside a busy thread, 64 in a call", 0.064 / together, "k/s")


def _decoded(check: SignatureCheck) -> Iterator[Figure]:
    for each, as_json, form in FORMS:
        bare, signed = _runs(each, as_json=as_json)
        open_ = Intake({"none:5:inf": 5})
        required = Intake(open_.mechanisms, signatures=Signatures(TOPIC, True, check))
        plain = _best(partial(_taken, bare, open_), time.process_time)
        sealed = _best(partial(_taken, signed, required), time.process_time)
        yield Figure(f"decode, {form}, open", RECORDS * each / plain / 1e6, "M ratings/s")
        yield Figure(f"decode, {form}, signed", RECORDS * each / sealed / 1e6, "M ratings/s")
        yield Figure(f"decode, {form}, signed / open, seconds", sealed / plain, "x")


def _signed() -> Figure:
    key, event = SigningKey.from_seed(bytes(32)), bytes(200)

    def sign() -> None:
        for _ in range(RECORDS):
            key.seal(TOPIC, event)

    seconds = _best(sign, time.process_time)
    return Figure("events signed by a device", RECORDS / seconds / 1e3, "k/s")


def _runs(each: int, *, as_json: bool) -> tuple[RecordRun, RecordRun]:
    """Return a run of partition 0 without and with signatures, `each` ratings a record."""
    keys: list[bytes] = []
    bare: list[bytes] = []
    signed: list[bytes] = []
    items, reports = np.arange(each, dtype=np.uint64), np.zeros(each, np.uint8)
    seed = 0
    while len(keys) < RECORDS:
        key, seed = SigningKey.from_seed(seed.to_bytes(32, "little")), seed + 1
        event = Event(key.pseudonym, 1, "none:5:inf", 20_000, items, reports)
        if wire.partitions_of(np.frombuffer(event.key, np.uint8).reshape(1, 32), 4)[0]:
            continue
        value = wire.encode_json(event) if as_json else wire.encode(event)
        keys.append(event.key)
        bare.append(value)
        signed.append(key.seal(TOPIC, value))
    places = range(RECORDS)
    return RecordRun(0, places, keys, bare), RecordRun(0, places, keys, signed)


def _kept(claims: list[Claim]) -> Callable[..., np.ndarray]:
    def keep(found: list[Claim]) -> np.ndarray:
        claims.extend(found)
        return np.ones(len(found), np.bool_)

    return keep


def _taken(run: RecordRun, intake: Intake) -> None:
    assert not wire.decode_many(run, intake).reasons.any()


@contextmanager
def _busy_interpreter() -> Iterator[None]:
    """Keep a thread of this process in the interpreter for the length of the block."""
    ended = threading.Event()

    def spin() -> None:
        while not ended.is_set():
            sum(range(1000))

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _best(run: Callable[[], object], clock: Callable[[], float]) -> float:
    """Return the least seconds of several runs, after one that compiles."""
    run()
    taken = []
    for _ in range(ROUNDS):
        began = clock()
        run()
        taken.append(clock() - began)
    return min(taken)
