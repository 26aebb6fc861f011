"""Faults that show only when the reports of several members are compared, planted and absent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stream_app.agents.warmup import is_cached
from stream_app.errors import UserError
from stream_app.operations.watching import members
from stream_app.operations.watching.examination import check_release, check_turns, kernels
from stream_app.operations.watching.members import CheckpointState, Member, WorkerState
from stream_app.privacy import registry
from tests.fixtures.replicas import SMALL

HERE, THERE = "http://127.0.0.1:8470", "http://b.example:8470"
OWNER = WorkerState(
    ready=True, waiting_for=None, clock=True, design_digest=SMALL.digest, lag_records=0,
    checkpoint=CheckpointState(owned=True, durable_cut=7, uncovered_seconds=1.0),
    mechanisms=("rr:5:2",), version="0.2.0", time=0.0, settings=SMALL.public_settings,
)  # fmt: skip
OTHER = msgspec.structs.replace(OWNER, clock=False, checkpoint=CheckpointState(owned=False))


def pair(ahead: float = 0.0, **changes: Any) -> list[Member]:
    """Return two workers, the second with changes."""
    return [
        Member(HERE, OWNER),
        Member(THERE, msgspec.structs.replace(OTHER, **changes), ahead),
    ]


def test_two_workers_that_agree_have_no_fault() -> None:
    for look in (members.clock, members.design, members.releases, members.machines):
        assert look(pair())
    assert "of cut 7" in members.checkpoint(pair(), 2.0)


def test_two_designs_are_told_apart_by_the_settings_that_differ() -> None:
    spec = replace(SMALL, mechanisms=(registry.parse("rr:5:1"),), clip=4.0)
    with pytest.raises(UserError, match=r"clip is 4.0 there and inf here; mechanisms is rr:5:1"):
        members.design(pair(design_digest=spec.digest, settings=spec.public_settings))
    seeded = replace(SMALL, seed=77)
    assert "77" not in str(seeded.public_settings)
    with pytest.raises(UserError, match="hash_seed is another there"):
        members.design(pair(design_digest=seeded.digest, settings=seeded.public_settings))
    with pytest.raises(UserError, match="another design that was not asked"):
        members.design(pair(other_design="f" * 32))


def test_each_shard_has_a_clock_and_a_design_of_its_own() -> None:
    found = []
    for shard in (1, 0):
        spec = replace(SMALL, shards=2, shard=shard)
        state = msgspec.structs.replace(
            OWNER, settings=spec.public_settings, design_digest=spec.digest
        )
        found.append(Member(f"http://{shard}.example:8470", state))
    shards = members.by_shard(found)
    assert [(label, [own.url[7] for own in each]) for label, each in shards] == [
        (" of shard 0", ["0"]),
        (" of shard 1", ["1"]),
    ]
    assert {members.clock(each) for _, each in shards} == {"one worker writes the cuts"}
    assert {members.design(each) for _, each in shards} == {"all workers have the same"}
    with pytest.raises(UserError, match="2 workers write cuts"):
        members.clock(found)
    assert [label for label, _ in members.by_shard(pair())] == [""]


def test_releases_and_clocks_of_machines_are_compared() -> None:
    with pytest.raises(UserError, match=r"releases 0.1.9, 0.2.0: finish the upgrade"):
        members.releases(pair(version="0.1.9"))
    with pytest.raises(UserError, match="an earlier one"):
        members.releases(pair(version=""))
    with pytest.raises(UserError, match=f"{THERE} is 9 s ahead of the one here"):
        members.machines(pair(ahead=9.0))
    with pytest.raises(UserError, match="3 s behind"):
        members.machines(pair(ahead=-3.0))


def test_a_checkpoint_that_never_becomes_durable_is_a_fault_of_the_owner() -> None:
    stuck = msgspec.structs.replace(OWNER, checkpoint=CheckpointState(True, 7, 75.0))
    with pytest.raises(UserError, match=r"repeat 75 s of applying.*WRITE on the state topic"):
        members.checkpoint([Member(HERE, stuck)], 2.0)
    assert members.checkpoint([Member(HERE, stuck)], 10.0)
    assert members.checkpoint([Member(THERE, OTHER)], 2.0) == "written by none of these workers"


def test_clocks_none_and_two() -> None:
    with pytest.raises(UserError, match="2 workers write cuts"):
        members.clock(pair(clock=True))
    with pytest.raises(UserError, match="none of these workers writes cuts"):
        members.clock(pair()[1:])


def test_a_gateway_with_other_mechanisms_is_a_fault_either_way() -> None:
    assert members.allowed_alike(["rr:5:2", "rr:5:1"], ["rr:5:1", "rr:5:2"])
    with pytest.raises(UserError, match="allows rr:5:1, which workers reject"):
        members.allowed_alike(["rr:5:2", "rr:5:1"], ["rr:5:2"])
    with pytest.raises(UserError, match="refuses rr:5:1, which workers take"):
        members.allowed_alike(["rr:5:2"], ["rr:5:2", "rr:5:1"])


def test_designs_in_turn_are_a_fault_and_a_change_is_none() -> None:
    check_turns(["a"] * 5 + ["b"] * 5 + ["a"] * 5)
    with pytest.raises(UserError, match="changed 9 times between workers of 2 designs"):
        check_turns(["a", "b"] * 5)


def test_an_old_kafka_is_known_by_the_configurations_of_its_topics() -> None:
    check_release({"message.timestamp.before.max.ms": "1"})
    with pytest.raises(UserError, match=r"older than Kafka 3\.6"):
        check_release({"message.timestamp.difference.max.ms": "1"})


def test_a_cold_cache_is_a_fault_where_a_worker_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    assert not is_cached()
    with pytest.raises(UserError, match="murmurec worker --warmup"):
        kernels(is_cached(), [THERE, HERE])
    assert "a first worker compiles" in kernels(is_cached(), [THERE])
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "kernel.py311.nbi").touch()
    assert is_cached()
    assert kernels(is_cached(), [HERE])
