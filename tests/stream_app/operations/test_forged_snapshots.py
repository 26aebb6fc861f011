"""Snapshots whose digests are right and whose ledger is none: a sentence, from each command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from stream_app.checkpoints import snapshot_file
from stream_app.checkpoints.snapshot_file import SnapshotFile
from stream_app.errors import UserError
from stream_app.operations.growth import migrate
from stream_app.state.replica import Replica
from stream_app.wire.state_records import SmallArray, StateOrigin, ledger_root
from tests.fixtures.replicas import ALL
from tests.fixtures.rounds import digests, play, records_of

TINY = replace(ALL, factors=4, sketch_bytes=1 << 12, seen_bytes=1 << 10, presence_bytes=1 << 12)
Ledger = dict[str, NDArray[np.generic]]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    replica, path = Replica(TINY), tmp_path_factory.mktemp("snapshot") / "state.npz"
    play(replica, records_of(1, 60), 1, 4)
    snapshot_file.write(path, replica)
    return path


def forged(path: Path, new: Path, change: Callable[[Ledger], Ledger]) -> SnapshotFile:
    """Write a snapshot with another ledger, all digests made again, as anyone can."""
    found = snapshot_file.read(path)
    ledger = change(dict(found.ledger))
    small = (SmallArray(n, a.dtype.str, a.shape, a.tobytes()) for n, a in sorted(ledger.items()))
    meta = msgspec.structs.replace(found.meta, ledger=ledger_root(TINY.digest, tuple(small)))
    meta = msgspec.structs.replace(meta, digest=meta.fingerprint)
    with new.open("wb") as file:
        snapshot_file._write(file, meta, found.model, ledger)
    return snapshot_file.read(new)


def without(name: str) -> Callable[[Ledger], Ledger]:
    return lambda ledger: {n: a for n, a in ledger.items() if n != name}


def with_(name: str, array: NDArray[np.generic]) -> Callable[[Ledger], Ledger]:
    return lambda ledger: ledger | {name: array}


MANY = len(TINY.mechanisms) + 1
FORGERIES = {
    "no mechanisms": (without("mechanisms"), "mechanisms"),
    "no mechanism at all": (with_("mechanisms", np.zeros(0, np.int64)), "mechanisms"),
    "a mechanism more": (with_("mechanisms", np.zeros(MANY + 1, np.int64)), "mechanisms"),
    "a table of mechanisms": (with_("mechanisms", np.zeros((MANY, 1), np.int64)), "mechanisms"),
    "a count alone": (with_("mechanisms", np.int64(4).reshape(())), "mechanisms"),
    "counts below 0": (with_("mechanisms", np.full(MANY, -1, np.int64)), "mechanisms"),
    "counts of text": (with_("mechanisms", np.full(MANY, "x")), "mechanisms"),
    "no forgotten": (without("forgotten"), "forgotten"),
    "half a device": (with_("forgotten", np.zeros(3, np.uint64)), "forgotten"),
    "a signed device": (with_("forgotten", np.full((1, 2), -1, np.int64)), "forgotten"),
}
forgeries = pytest.mark.parametrize(("change", "name"), FORGERIES.values(), ids=list(FORGERIES))


@forgeries
def test_a_ledger_that_is_none_is_not_adopted(
    written: Path, tmp_path: Path, change: Callable[[Ledger], Ledger], name: str
) -> None:
    found = forged(written, tmp_path / "a.npz", change)
    replica = Replica(TINY)
    before = digests(replica)
    with pytest.raises(UserError, match=rf"a\.npz: .*{name}.*give another snapshot"):
        found.adopt(replica, StateOrigin(0, (0,) * 4, snapshot=found.digest))
    assert digests(replica) == before


@forgeries
def test_a_ledger_that_is_none_is_not_converted(
    written: Path, tmp_path: Path, change: Callable[[Ledger], Ledger], name: str
) -> None:
    forged(written, tmp_path / "a.npz", change)
    for spec in (TINY, replace(TINY, mechanisms=TINY.mechanisms[::-1])):
        with pytest.raises(UserError, match=rf"a\.npz: .*{name}.*give another snapshot"):
            migrate(tmp_path / "a.npz", tmp_path / "b.npz", spec)
    assert not (tmp_path / "b.npz").exists()


def test_an_honest_copy_with_its_digests_made_again_is_taken(written: Path, tmp_path: Path) -> None:
    found = forged(written, tmp_path / "a.npz", dict)
    replica = Replica(TINY)
    found.adopt(replica, StateOrigin(0, (0,) * 4, snapshot=found.digest))
    assert replica.reports_by_mechanism()
    migrate(tmp_path / "a.npz", tmp_path / "b.npz", TINY)
    assert snapshot_file.read(tmp_path / "b.npz").ledger["mechanisms"].sum() > 0
