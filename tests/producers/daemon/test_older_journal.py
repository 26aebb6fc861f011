"""A journal that is older than what the topic holds of its device does not go on."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from producers.journal import Journal, PersonBudget
from producers.last_seen import check_newest, seq_of
from stream_app import wire
from stream_app.errors import OlderJournal
from stream_app.wire.signatures import Signatures, SigningKey
from tests.producers.daemon.world import TODAY, device, pseudonym
from tests.producers.journals import TOPIC


def test_an_older_copy_ends_the_program_and_the_newest_one_goes_on(tmp_path: Path) -> None:
    path, copy = tmp_path / "j", tmp_path / "copy"
    with Journal.open(path) as journal:
        ann = pseudonym(journal, "ann")
        journal.enrol([ann], PersonBudget(), TODAY - 1)
    shutil.copy(path, copy)
    with Journal.open(path) as journal:
        run = device(journal)
        run.days(1)
        newest = {ann: (max(seq for _, _, seq, _ in run.broker.seen), b"")}
        check_newest(journal, TOPIC, newest)
    with Journal.open(copy) as journal:
        before = journal.path.read_bytes()
        older = device(journal)

        def connect() -> object:
            check_newest(journal, TOPIC, newest)
            return older.broker.connect()

        older.daemon.delivery._connect = connect
        with pytest.raises(OlderJournal, match=r"older copy of the journal.*--trust-journal"):
            older.days(1)
        assert journal.path.read_bytes() == before


def test_the_number_of_a_record_is_read_in_every_encoding_and_junk_has_none() -> None:
    pair = SigningKey.from_seed(bytes(32))
    event = wire.Event(pair.pseudonym, 7, "rr:5:2", TODAY, np.uint64([3]), np.uint8([1]))
    key, either = event.key, Signatures(TOPIC)
    required = Signatures(TOPIC, required=True)
    for value in (wire.encode(event), wire.encode_json(event)):
        sealed = pair.seal(TOPIC, value)
        assert seq_of(key, value, either) == seq_of(key, sealed, either) == 7
        assert seq_of(key, sealed, required) == 7
        assert seq_of(key, value, required) == 0  # anybody can write it
        assert seq_of(key, pair.seal("other", value), required) == 0
    for junk in (None, b"", b"{", b"\xc1", b"\x81", b'{"seq": "7"}', b"[" * 5000, b"x" * 10**6):
        assert seq_of(key, junk, either) == 0
