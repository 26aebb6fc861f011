"""A snapshot under other sizes: what can be carried over is, and the rest is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stream_app.checkpoints import snapshot_file
from stream_app.checkpoints.snapshot_file import SnapshotFile
from stream_app.errors import UserError
from stream_app.models.factorization.factory import build
from stream_app.models.factorization.learner import Learner, LearnerSpec
from stream_app.operations import growth
from stream_app.operations.growth import converted, migrate
from stream_app.state.migration import Fate
from stream_app.state.replica import Replica, StateSpec
from stream_app.wire import decode_many
from stream_app.wire.state_records import StateOrigin
from tests.fixtures.replicas import ALL
from tests.fixtures.rounds import digests, play, records_of
from tests.fixtures.streams import events, publish, run_of

SAME = replace(
    ALL, factors=4, sketch_bytes=1 << 12, scalars_bytes=1 << 12, seen_bytes=1 << 10,
    presence_bytes=1 << 12, head_items=64,
)  # fmt: skip


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a snapshot of 200 events."""
    replica, path = Replica(SAME), tmp_path_factory.mktemp("migration") / "old.npz"
    play(replica, records_of(3, 200), 1, 4)
    snapshot_file.write(path, replica)
    return path


@pytest.fixture(scope="module")
def old(file: Path) -> SnapshotFile:
    return snapshot_file.read(file)


def fates(old: SnapshotFile, spec: StateSpec) -> tuple[Replica, dict[str, Fate]]:
    replica, parts = converted(old, spec)
    assert all(each.reason for each in parts)
    assert {each.part for each in parts} >= {*replica.parts(), "ledger"}
    return replica, {each.part: each.fate for each in parts}


def old_learner(old: SnapshotFile, spec: StateSpec) -> Learner:
    channels = Replica(spec).channels
    learner = build("hybrid", channels, LearnerSpec(4, 4, 1 << 12, 1 << 12, seed=1))
    arrays = {k: a for k, a in old.model.items() if k.startswith("learner.")}
    learner.load({k.removeprefix("learner."): a for k, a in arrays.items()})
    return learner


@pytest.mark.parametrize(
    "changes",
    [
        {"sketch_bytes": 1 << 15, "scalars_bytes": 1 << 14},
        {"seed": 99},
    ],
    ids=["larger", "seed"],
)
def test_entities_known_by_key_move_to_other_tables(
    old: SnapshotFile, changes: dict[str, object]
) -> None:
    spec = replace(SAME, **changes)  # type: ignore[arg-type]
    replica, found = fates(old, spec)
    assert found["learner"] is Fate.CONVERTED
    before = old_learner(old, SAME)
    items, users = old.model["items.keys"], old.model["marks.devices"][:, 0]
    kept = 0
    for side, keys in (("items", items), ("users", users)):
        for was, now in zip(getattr(before, side)(keys), getattr(replica.learner, side)(keys),
                            strict=True):  # fmt: skip
            same = [np.array_equal(a, b) for a, b in zip(was, now, strict=True)]
            kept += sum(same)
    assert kept >= 2 * (len(items) + len(users)) * 0.97
    assert replica.learner.mean == before.mean


def test_what_cannot_move_starts_empty(old: SnapshotFile) -> None:
    spec = replace(SAME, seen_bytes=1 << 11, head_items=32, model="sketch", seed=1)
    replica, found = fates(old, spec)
    empty = {part for part, fate in found.items() if fate is Fate.EMPTY}
    assert empty == {
        "learner", "seen", "rated_head", "rated_lists", "rated_moments", "reported_head",
        "reported_lists", "reported_moments",
    }  # fmt: skip
    play(replica, records_of(7, 60), 1, 3)


def test_the_most_reported_items_keep_their_rows(old: SnapshotFile) -> None:
    replica, found = fates(old, replace(SAME, items_most=20))
    counts = replica.frequencies.estimate_many(old.model["items.keys"])
    least = np.sort(counts)[-20:].min()
    assert len(replica.items) == 20
    assert (replica.frequencies.estimate_many(replica.items.keys) >= least).all()
    assert found["rated_head"] is Fate.EMPTY, "its rows are those of other items"
    play(replica, records_of(7, 60), 1, 3)


def test_other_factors_keep_the_biases(old: SnapshotFile) -> None:
    replica, _ = fates(old, replace(SAME, factors=8, sketch_bytes=1 << 15))
    items = old.model["items.keys"]
    before = old_learner(old, SAME)
    assert np.array_equal(replica.learner.items(items)[1], before.items(items)[1])
    assert np.isfinite(replica.learner.items(items)[0]).all()


def test_a_migrated_file_is_a_snapshot_of_the_spec(file: Path, tmp_path: Path) -> None:
    spec = replace(SAME, partitions=8)
    written = migrate(file, tmp_path / "new.npz", spec)
    read = snapshot_file.read(tmp_path / "new.npz", spec)
    assert read.meta == written.meta
    origin = StateOrigin(0, (0,) * 8, snapshot=read.digest)
    replica = Replica(spec, origin)
    read.adopt(replica, origin)
    assert replica.model_digest() == written.meta.model
    again = migrate(tmp_path / "new.npz", tmp_path / "again.npz", spec)
    assert {each.fate for each in again.parts if each.part != "ledger"} == {Fate.CARRIED}
    assert again.meta.model == written.meta.model


def test_a_state_of_this_release_moves_to_other_sizes(tmp_path: Path) -> None:
    replica = Replica(SAME)
    play(replica, records_of(3, 120), 1, 4)
    snapshot_file.write(tmp_path / "a.npz", replica)
    assert (
        fates(snapshot_file.read(tmp_path / "a.npz"), SAME)[0].model_digest()
        == (digests(replica)[0])
    )
    larger, found = fates(
        snapshot_file.read(tmp_path / "a.npz"), replace(SAME, scalars_bytes=1 << 13)
    )
    assert found["learner"] is Fate.CONVERTED
    assert larger.marks.devices == replica.marks.devices


@pytest.mark.parametrize(
    "spec",
    [SAME, replace(SAME, seed=SAME.seed + 1), replace(SAME, mechanisms=SAME.mechanisms[::-1])],
    ids=["same", "seed", "mechanisms"],
)
def test_an_event_that_is_sent_again_after_a_migration_is_no_number_used_again(
    tmp_path: Path, spec: StateSpec
) -> None:
    """Digests of contents depend on the seed and on the places of the mechanisms."""
    made = [publish(each) for each in events(np.random.default_rng(3), 120)]
    replica = Replica(SAME)
    play(replica, made, 1, 4)
    snapshot_file.write(tmp_path / "a.npz", replica)
    moved, _ = fates(snapshot_file.read(tmp_path / "a.npz"), spec)
    for record in made:
        run = run_of([record], 0, 1, record.partition)
        moved.apply(decode_many(run, spec.intake))
    assert moved.ledger.counts()["duplicate"] > 0
    assert moved.ledger.counts()["seq_reused"] == 0


def test_a_state_that_may_hold_raw_ratings_never_passes_for_a_protected_one(
    old: SnapshotFile, tmp_path: Path
) -> None:
    raw = "none:5:inf"
    assert raw in old.meta.settings["mechanisms"]
    protected = tuple(each for each in SAME.mechanisms if each.id != raw)
    assert fates(old, SAME)[0].privacy == "none"
    without, _ = fates(old, replace(SAME, mechanisms=protected))
    assert without.privacy == "none"
    assert without.reports_by_mechanism()["unlisted"] > 0
    snapshot_file.write(tmp_path / "a.npz", without)
    again, _ = fates(snapshot_file.read(tmp_path / "a.npz"), SAME)
    assert again.privacy == "none"


def test_the_counts_by_mechanism_move_to_another_allow_list(tmp_path: Path) -> None:
    protected = tuple(each for each in SAME.mechanisms if each.id != "none:5:inf")
    replica = Replica(replace(SAME, mechanisms=protected))
    names = tuple(each.id for each in protected)
    made = events(np.random.default_rng(3), 120, families=names)
    play(replica, [publish(each) for each in made], 1, 4)
    snapshot_file.write(tmp_path / "a.npz", replica)
    moved, _ = fates(snapshot_file.read(tmp_path / "a.npz"), SAME)
    assert moved.reports_by_mechanism() == replica.reports_by_mechanism() != {}
    assert moved.privacy == replica.privacy == "local"


def test_another_state_format_is_refused(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "STATE_FORMAT", 11)
    with pytest.raises(UserError, match="state format 10; this release reads format 11"):
        migrate(file, tmp_path / "new.npz", SAME)
