"""The device store: durable, private, one process at a time, one sentence when unusable."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from producers.store import Store, read_key
from stream_app.errors import Refusal

ANN, BOB = b"a" * 16, b"b" * 16


def items(count: int, first: int = 1000) -> np.ndarray:
    """Return the keys of so many items."""
    return np.arange(first, first + count, dtype=np.uint64)


def seqs(reserved: list[tuple[int, np.ndarray]]) -> list[int]:
    return [seq for seq, _ in reserved]


def test_the_key_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "here" / "device.sqlite"
    with Store.open(path) as store:
        key = store.key
        assert len(key) == 32
        assert key.hex() not in repr(store)
        assert repr(key) not in repr(store)
    with Store.open(path) as store:
        assert store.key == key
    with Store.open(tmp_path / "other") as other:
        assert other.key != key


def test_nobody_else_may_open_what_holds_the_key(tmp_path: Path) -> None:
    path = tmp_path / "device.sqlite"
    old = os.umask(0)
    try:
        with Store.open(path) as store:
            store.claim(ANN, 1)
            for file in tmp_path.iterdir():
                assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    finally:
        os.umask(old)
    path.chmod(0o644)
    with pytest.raises(Refusal, match=r"others can open it .mode 644.*chmod 600"):
        Store.open(path)


def test_numbers_go_on_after_the_store_was_closed(tmp_path: Path) -> None:
    path = tmp_path / "device.sqlite"
    with Store.open(path) as store:
        replay = store.begin(b"digest", "rr:5:2", 100)
        assert seqs(store.advance(replay, 40, [(ANN, items(4)), (BOB, items(3))], 3)) == [1, 1]
        assert store.claim(ANN, 5) == 3
    with Store.open(path) as store:
        replay = store.begin(b"digest", "rr:5:2", 100)
        assert (replay.reserved, replay.begun) == (40, 1)
        assert seqs(store.advance(replay, 100, [(ANN, items(3, 2000))], 1)) == [4]
        assert store.claim(ANN, 6) == 7


def test_rows_are_reserved_once(store: Store) -> None:
    replay = store.begin(b"digest", "rr:5:2", 100)
    store.advance(replay, 40, [(ANN, items(1))])
    for upto in (40, 10):
        with pytest.raises(RuntimeError, match="reserved already"):
            store.advance(replay, upto, [(ANN, items(1, 2000))])
    assert store.claim(ANN, 1) == 2  # the refused ones took no number


def test_a_run_that_was_begun_anew_ends_the_earlier_one(store: Store) -> None:
    first = store.begin(b"digest", "rr:5:2", 100)
    store.advance(first, 40, [])
    second = store.begin(b"digest", "rr:5:2", 100, again=True)
    assert (second.reserved, second.begun) == (0, 2)
    with pytest.raises(RuntimeError, match="reserved already"):
        store.advance(first, 60, [])
    store.advance(second, 20, [])


def test_a_finished_data_set_is_refused_and_says_what_again_costs(store: Store) -> None:
    store.advance(store.begin(b"digest", "rr:5:2", 10), 10, [(ANN, items(1))])
    for mechanism in ("rr:5:2", "rr:5:1"):
        with pytest.raises(Refusal, match=r"10 rows under rr:5:2.*second time: --again"):
            store.begin(b"digest", mechanism, 10)
    assert store.begin(b"another", "rr:5:2", 10).reserved == 0


def test_a_data_set_goes_on_under_its_own_mechanism_only(store: Store) -> None:
    store.advance(store.begin(b"digest", "rr:5:2", 10), 4, [])
    with pytest.raises(Refusal, match=r"begun under rr:5:2 .4 of 10 rows."):
        store.begin(b"digest", "rr:5:1", 10)


def test_a_failed_block_changes_nothing(store: Store) -> None:
    replay = store.begin(b"digest", "rr:5:2", 100)
    with pytest.raises(sqlite3.IntegrityError):
        store.advance(replay, 40, [(ANN, items(1)), (None, items(1))])  # type: ignore[list-item]
    assert store.begin(b"digest", "rr:5:2", 100).reserved == 0
    ((seq, wanted),) = store.advance(replay, 40, [(ANN, items(1))])
    assert (seq, wanted.tolist()) == (1, [True])


def test_a_rating_is_published_once_by_whatever_way_it_comes(store: Store) -> None:
    assert store.claim(ANN, 7) == 1
    first = store.begin(b"first", "rr:5:2", 10)
    ((seq, wanted),) = store.advance(first, 10, [(ANN, np.array([9, 7, 2**64 - 1], np.uint64))], 1)
    assert (seq, wanted.tolist()) == (2, [True, False, True])
    for item in (7, 9, 2**64 - 1):
        with pytest.raises(Refusal, match=r"published already.*--again"):
            store.claim(ANN, item)
    assert store.claim(BOB, 7) == 1
    grown = store.begin(b"grown", "rr:5:2", 10)
    ((seq, wanted),) = store.advance(grown, 10, [(ANN, np.array([8, 7, 9], np.uint64))])
    assert (seq, wanted.tolist()) == (4, [True, False, False])
    assert store.claim(ANN, 7, again=True) == 5
    assert store.claim(ANN, 1) == 6


def test_a_device_without_new_ratings_takes_no_number(store: Store) -> None:
    store.advance(store.begin(b"first", "rr:5:2", 10), 10, [(ANN, items(5))])
    ((_, wanted),) = store.advance(store.begin(b"second", "rr:5:2", 10), 10, [(ANN, items(5))])
    assert not wanted.any()
    assert store.claim(ANN, 1) == 2


def test_who_agreed_to_publish_again_need_not_agree_twice(store: Store) -> None:
    store.claim(ANN, 7)
    replay = store.begin(b"digest", "rr:5:2", 10, again=True)
    assert store.begin(b"digest", "rr:5:2", 10) == replay
    ((_, wanted),) = store.advance(replay, 5, [(ANN, np.array([7, 8], np.uint64))])
    assert wanted.all()
    with pytest.raises(Refusal, match="published already"):
        store.claim(ANN, 8)


def test_what_was_published_takes_eight_bytes_a_rating(store: Store) -> None:
    replay = store.begin(b"digest", "rr:5:2", 100)
    empty = store.path.stat().st_size
    store.advance(replay, 100, [(ANN, items(100_000))])
    assert store.path.stat().st_size - empty < 9 * 100_000


def test_a_number_is_on_the_disk_before_it_is_used(tmp_path: Path) -> None:
    path = tmp_path / "device.sqlite"
    program = f"""
import os, signal
import numpy as np
from producers.store import Store
store = Store.open({str(path)!r})
replay = store.begin(b"digest", "rr:5:2", 100)
store.advance(replay, 30, [(b"a" * 16, np.arange(7, dtype=np.uint64))], 1)
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    with Store.open(path) as store:
        replay = store.begin(b"digest", "rr:5:2", 100)
        assert replay.reserved == 30
        ((seq, wanted),) = store.advance(replay, 31, [(ANN, items(2, 6))])
        assert (seq, wanted.tolist()) == (8, [False, True])


def test_a_process_that_dies_in_the_middle_of_a_reservation_reserved_nothing(
    tmp_path: Path,
) -> None:
    path = tmp_path / "device.sqlite"
    program = f"""
import os, signal
import numpy as np
from producers.store import Store

def ratings():
    yield b"a" * 16, np.arange(7, dtype=np.uint64)
    os.kill(os.getpid(), signal.SIGKILL)

store = Store.open({str(path)!r})
store.advance(store.begin(b"digest", "rr:5:2", 100), 30, ratings())
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -9
    with Store.open(path) as store:
        replay = store.begin(b"digest", "rr:5:2", 100)
        assert replay.reserved == 0
        ((seq, wanted),) = store.advance(replay, 30, [(ANN, items(7, 0))])
        assert (seq, wanted.all()) == (1, True)


def test_a_second_process_gets_one_sentence_and_may_read_the_key(store: Store) -> None:
    program = f"""
from producers.store import Store, read_key
from stream_app.errors import Refusal
print(read_key({str(store.path)!r}).hex())
try:
    Store.open({str(store.path)!r})
except Refusal as refusal:
    print(refusal)
"""
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    key, sentence = out.stdout.splitlines()
    assert key == store.key.hex()
    assert "another process is using it" in sentence
    assert "--store" in sentence
    assert store.claim(ANN, 1) == 1


def test_the_store_is_free_again_when_its_process_is_gone(store: Store) -> None:
    store.close()
    store.close()
    with Store.open(store.path) as again:
        assert again.key == store.key


def test_a_store_does_not_cross_a_fork(tmp_path: Path) -> None:
    program = f"""
import os
from producers.store import Store
store = Store.open({str(tmp_path / "device.sqlite")!r})
child = os.fork()
if child == 0:
    try:
        store.claim(b"a" * 16, 1)
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(store.claim(b"a" * 16, 1))
"""
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert "before a fork" in out.stdout
    assert out.stdout.splitlines()[-1] == "1"


def test_what_is_no_store_is_refused_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "noise").write_bytes(os.urandom(5000))
    with sqlite3.connect(tmp_path / "foreign") as foreign:
        foreign.execute("create table t (x)")
    foreign.close()
    with Store.open(tmp_path / "newer"):
        pass
    with sqlite3.connect(tmp_path / "newer") as newer:
        newer.execute("pragma user_version = 99")
    newer.close()
    for file in tmp_path.iterdir():
        file.chmod(0o600)
    for name, said in {
        ".": "is a directory", "noise": "not a device store", "foreign": "another program",
        "newer": "format 99", "noise/below": "cannot be opened for writing",
    }.items():  # fmt: skip
        with pytest.raises(Refusal, match=said) as caught:
            Store.open(tmp_path / name)
        assert "device store" in str(caught.value)
    with pytest.raises(Refusal, match="there is none"):
        read_key(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()


def test_a_damaged_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "device.sqlite"
    with Store.open(path) as store:
        replay = store.begin(b"digest", "rr:5:2", 10**6)
        store.advance(replay, 1, [(os.urandom(16), items(1)) for _ in range(2000)])
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 2000] = b"\xff" * 2000
    path.write_bytes(content)
    with pytest.raises(Refusal, match="damaged"):
        Store.open(path)


def test_a_store_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "device.sqlite"
    with Store.open(path) as store:
        replay = store.begin(b"digest", "rr:5:2", 100)
        # The superuser may write everything, so the database itself is told to be read-only.
        store._database.execute("pragma query_only = on")
        with pytest.raises(Refusal, match="read-only"):
            store.claim(ANN, 1)
        store._database.execute("pragma query_only = off")
        store._database.execute("pragma max_page_count = 1")
        many = [(os.urandom(16), items(1)) for _ in range(1000)]
        with pytest.raises(Refusal, match="the disk is full; nothing was sent"):
            store.advance(replay, 1, many)
