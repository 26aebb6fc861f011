"""A snapshot file gives back exactly what was written, or a sentence with the reason."""

from __future__ import annotations

import errno
import io
import json
import os
import resource
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stream_app.checkpoints import snapshot_file
from stream_app.errors import UserError
from stream_app.state.replica import Replica, StateSpec
from stream_app.wire.state_records import StateOrigin
from tests.fixtures.replicas import ALL
from tests.fixtures.rounds import digests, every_model, play, records_of

# Small, so that every place in the file can be damaged; the count-min sketch alone has 2 MB.
TINY = replace(ALL, factors=4, sketch_bytes=1 << 12, seen_bytes=1 << 10, presence_bytes=1 << 12)


def used(design: StateSpec = TINY) -> Replica:
    replica = Replica(design, StateOrigin(0, (0,) * 4, excluded=("ff" * 16,)))
    play(replica, records_of(1, 60), 1, 4)
    return replica


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("snapshot") / "state.npz"
    snapshot_file.write(path, used(), {"prefix": "murmurec"})
    return path


def refusal(path: Path, design: StateSpec | None = None) -> str:
    with pytest.raises(UserError) as refused:
        snapshot_file.read(path, design)
    sentence = str(refused.value)
    assert sentence.startswith(f"{path}: ")
    return sentence


@every_model
def test_a_replica_that_loads_a_snapshot_holds_the_state_and_goes_on_alike(
    model: str, tmp_path: Path
) -> None:
    first = used(replace(TINY, model=model))
    meta = snapshot_file.write(tmp_path / "a.npz", first)
    found = snapshot_file.read(tmp_path / "a.npz", first.spec)
    assert found.meta == meta
    assert (meta.model, meta.ledger, meta.cut, meta.end_offsets) == digests(first)
    second = Replica(first.spec)
    second.load(found.model, found.ledger, meta.cut, meta.end_offsets, meta.origin)
    assert digests(second) == digests(first)
    assert second.origin == first.origin
    for replica in (first, second):
        play(replica, records_of(1, 60), 5, 6)
    assert digests(second) == digests(first)


def test_equal_states_give_equal_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        snapshot_file.write(tmp_path / name, used())
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_numpy_alone_reads_the_arrays(written: Path) -> None:
    with np.load(written, allow_pickle=False) as arrays:
        held = used().model_arrays()
        assert {n.removeprefix("model.") for n in arrays.files if n.startswith("model.")} == set(
            held
        )
        for name, array in held.items():
            assert arrays[f"model.{name}"].tobytes() == array.tobytes()


def test_a_state_starts_from_the_model_of_the_snapshot_that_its_base_names(written: Path) -> None:
    found = snapshot_file.read(written)
    replica = Replica(TINY)
    found.adopt(replica, StateOrigin(0, (0,) * 4, snapshot=found.digest))
    assert replica.model_digest() == found.meta.model
    assert replica.ledger.counts()["applied"] == 0
    with pytest.raises(UserError, match="the state began from 0000"):
        found.adopt(Replica(TINY), StateOrigin(0, (0,) * 4, snapshot="00" * 16))


def test_two_snapshots_of_one_model_at_other_cuts_have_different_digests(tmp_path: Path) -> None:
    replica, digests_found = used(), []
    for number in (5, 6):
        replica.end_round(number, replica.end_offsets)
        digests_found.append(snapshot_file.write(tmp_path / "a", replica).digest)
    assert digests_found[0] != digests_found[1]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"factors": 8}, "factors is 4 there and 8 here"),
        ({"seed": 2}, "seed is 1 there and 2 here"),
        ({"clip": 3.5}, "clip is inf there and 3.5 here"),
        ({"mechanisms": TINY.mechanisms[:1]}, "cell:5:2, .* there and rr:5:2 here"),
    ],
)
def test_another_design_is_refused_by_the_settings_that_differ(
    written: Path, change: dict[str, object], sentence: str
) -> None:
    other = replace(TINY, **change)  # type: ignore[arg-type]
    with pytest.raises(UserError, match=sentence):
        snapshot_file.read(written, other)
    found, untouched = snapshot_file.read(written), Replica(other)
    before = digests(untouched)
    with pytest.raises(UserError, match=sentence):
        found.adopt(untouched, StateOrigin(0, (0,) * 4, snapshot=found.digest))
    assert digests(untouched) == before


@pytest.mark.parametrize(
    "data", [b"", b"user,item\n1,2\n", b"\x80\x04K\x01.", b"PK\x05\x06" + bytes(18)]
)
def test_any_other_file_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a").write_bytes(data)
    assert "not a snapshot; make one with murmurec state export" in refusal(tmp_path / "a")


def test_a_zip_of_other_arrays_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", item=np.arange(3))
    assert "not a snapshot" in refusal(tmp_path / "a.npz")


def test_what_cannot_be_read_at_all_is_refused(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "nowhere.npz")
    assert "not a regular file" in refusal(tmp_path)


@pytest.mark.parametrize("share", [0.001, 0.3, 0.9, 0.999])
def test_a_file_that_was_cut_short_is_refused(written: Path, tmp_path: Path, share: float) -> None:
    data = written.read_bytes()
    (tmp_path / "a").write_bytes(data[: int(len(data) * share)])
    assert "damaged or truncated" in refusal(tmp_path / "a")


def test_a_flipped_bit_anywhere_is_refused_or_changes_nothing(
    written: Path, tmp_path: Path, rng: np.random.Generator
) -> None:
    """Heads, names, directory, arrays; a bit that no reader looks at may flip unseen."""
    data = bytearray(written.read_bytes())
    end = len(data)
    places = [*range(0, 120, 7), *range(end - 1500, end, 61), *rng.integers(0, end, 15).tolist()]
    refused, path, wanted = 0, tmp_path / "a", snapshot_file.read(written)
    for place in places:
        data[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(data)
        try:
            found = snapshot_file.read(path)
        except UserError:
            refused += 1
        else:
            expected = (wanted.meta.model, wanted.meta.ledger, wanted.digest)
            assert (found.meta.model, found.meta.ledger, found.digest) == expected
            assert all(found.model[n].tobytes() == a.tobytes() for n, a in wanted.model.items())
        path.unlink()
        data[:] = written.read_bytes()
    assert refused > len(places) / 2


def rewritten(path: Path, new: Path, changes: dict[str, bytes]) -> Path:
    """Copy a snapshot with some members replaced and every checksum of the zip right."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(new, "w") as archive:
        for name in [*old.namelist(), *(n for n in changes if n not in old.namelist())]:
            archive.writestr(name, changes.get(name) or old.read(name))
    return new


def meta_with(path: Path, **changes: object) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        meta = json.loads(archive.read("meta.json"))
    return {"meta.json": json.dumps(meta | changes).encode()}


def test_a_newer_format_is_refused_whatever_else_it_holds(written: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a", "w") as archive:
        meta = {"kind": "murmurec snapshot", "format": 9, "murmurec": "7.1", "pages": []}
        archive.writestr("meta.json", json.dumps(meta))
    found = refusal(tmp_path / "a")
    assert "format 9" in found
    assert "up to 1" in found
    assert "install murmurec 7.1" in found


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("cut", 77),
        ("ends", [1, 2, 3, 4]),
        ("model", "00" * 16),
        ("ledger", "00" * 16),
        ("design", "00" * 16),
        ("settings", {}),
        ("digest", "00" * 16),
        ("base", {"cut": 3, "ends": [0, 0, 0, 0]}),
        ("base", 4),
    ],
)
def test_a_changed_word_about_the_state_is_refused(
    written: Path, tmp_path: Path, field: str, value: object
) -> None:
    other = rewritten(written, tmp_path / "a", meta_with(written, **{field: value}))
    assert "damaged" in refusal(other)


def npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, array, allow_pickle=True)
    return out.getvalue()


def test_an_array_of_another_state_is_refused(written: Path, tmp_path: Path) -> None:
    cells = used().model_arrays()["learner.vectors"].copy()
    cells[0] += 1
    changed = rewritten(written, tmp_path / "a", {"model.learner.vectors.npy": npy(cells)})
    assert "the digest of the model" in refusal(changed)
    counts = used().ledger.gaps + 1
    changed = rewritten(written, tmp_path / "b", {"ledger.gaps.npy": npy(counts)})
    assert "the digest of the ledger" in refusal(changed)
    more = rewritten(written, tmp_path / "c", {"model.more.npy": npy(counts)})
    assert "the digest of the model" in refusal(more)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_model_with_a_number_that_is_not_finite_is_refused(value: float, tmp_path: Path) -> None:
    replica = used()
    replica.model_arrays()["learner.vectors"].reshape(-1)[7] = value
    snapshot_file.write(tmp_path / "a.npz", replica)
    assert f"model.learner.vectors holds {value} at element 7" in refusal(tmp_path / "a.npz")


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/proc"])
def test_what_is_no_file_is_refused_before_it_is_read(path: str) -> None:
    assert "not a regular file" in refusal(Path(path))


def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in refusal(tmp_path / "pipe")


def test_a_file_larger_than_the_memory_is_refused_by_its_size(tmp_path: Path) -> None:
    with (tmp_path / "a").open("wb") as file:
        file.truncate(1 << 42)  # holds no block of the disk
    assert "4,398,046,511,104 bytes, more than the " in refusal(tmp_path / "a")


def test_members_that_share_their_bytes_are_refused(written: Path, tmp_path: Path) -> None:
    """A small file could become many arrays in memory."""
    with zipfile.ZipFile(tmp_path / "a", "w") as archive:
        archive.writestr("meta.json", b"x" * 10_000)
        member = archive.getinfo("meta.json")
        for number in range(3):
            again = zipfile.ZipInfo(f"model.{number}.npy")
            again.header_offset, again.CRC = member.header_offset, member.CRC
            again.compress_size = again.file_size = member.file_size
            archive.filelist.append(again)
            archive.NameToInfo[again.filename] = again
    assert "members overlap" in refusal(tmp_path / "a")


class Trap:
    """Unpickling it ends the process."""

    def __reduce__(self) -> tuple[object, ...]:
        return os.abort, ()


def test_objects_are_refused_and_never_made(written: Path, tmp_path: Path) -> None:
    trap = npy(np.array([Trap()], object))
    changed = rewritten(written, tmp_path / "a", {"model.items.keys.npy": trap})
    assert "holds pickled objects" in refusal(changed)


def test_an_array_that_claims_to_be_huge_is_refused_before_it_is_made(
    written: Path, tmp_path: Path
) -> None:
    header = npy(np.zeros(1, np.uint64)).replace(b"(1,)", b"(2**60,)").replace(b"2**60", b"9" * 5)
    changed = rewritten(written, tmp_path / "a", {"model.items.keys.npy": header})
    assert "does not have the length that its header gives" in refusal(changed)


def test_a_compressed_member_is_refused(written: Path, tmp_path: Path) -> None:
    """A small file could become a large one."""
    with zipfile.ZipFile(written) as old, zipfile.ZipFile(tmp_path / "a", "w") as archive:
        for name in old.namelist():
            kind = zipfile.ZIP_DEFLATED if "seen" in name else zipfile.ZIP_STORED
            archive.writestr(name, old.read(name), kind)
    assert "is compressed" in refusal(tmp_path / "a")


# --- writing ------------------------------------------------------------------------------------


def test_a_file_that_cannot_be_written_leaves_nothing_and_the_old_one_alone(
    tmp_path: Path,
) -> None:
    """The limit of a file's size replaces a full disk."""
    path, replica = tmp_path / "a", used()
    path.write_bytes(b"older")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(UserError, match=r"the disk is full, and 2,[\d,]+ bytes are needed"):
            snapshot_file.write(path, replica)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert [p.name for p in tmp_path.iterdir()] == ["a"]
    assert path.read_bytes() == b"older"


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=os.strerror(errno.ENOENT)):
        snapshot_file.write(tmp_path / "nowhere" / "a", used())


def test_a_second_snapshot_replaces_the_first(tmp_path: Path) -> None:
    replica = used()
    snapshot_file.write(tmp_path / "a", replica)
    play(replica, records_of(1, 60), 5, 6)
    snapshot_file.write(tmp_path / "a", replica)
    assert snapshot_file.read(tmp_path / "a").meta.cut == 6
    assert [p.name for p in tmp_path.iterdir()] == ["a"]


def test_what_is_no_file_is_not_replaced_by_one(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.npz"
    os.mkfifo(pipe)
    with pytest.raises(UserError, match="not a regular file"):
        snapshot_file.write(pipe, Replica(TINY))
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_snapshot_is_for_its_owner_alone(tmp_path: Path) -> None:
    snapshot_file.write(tmp_path / "a.npz", Replica(TINY))
    assert (tmp_path / "a.npz").stat().st_mode & 0o777 == 0o600
