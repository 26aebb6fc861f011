"""The state table on a real broker: one owner, the same as the clock's; no worker waits for its
changelog."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from stream_app.kafka import clients
from stream_app.kafka.topic_admin import create, delete
from stream_app.wire import Topics
from stream_app.wire.state_records import Claim, ClaimKey, encode_claim
from tests.conftest import Kafka
from tests.fixtures.waiting import PATIENCE_SECONDS
from tests.kafka.members import Running, running

pytestmark = pytest.mark.kafka
Member = Callable[..., Running]
CUTS, STATE = ".cuts.v1/0", ".state.v1/0"


@pytest.fixture
def member(kafka: Kafka, topics: str, tmp_path: Path) -> Iterator[Member]:
    """Give a function that starts a member and returns when it has been assigned something."""
    with ExitStack() as stack:

        def started(*options: str, ready: bool = True, folder: str = "data") -> Running:
            block = running(kafka.bootstrap, topics, tmp_path / folder, *options)
            process = stack.enter_context(block)
            if ready:
                process.wait("recovered")
            return process

        yield started


def owns(process: Running) -> set[str]:
    """Return what it was assigned last."""
    return set(process["assigned"][-1]["topics"])


def test_the_table_goes_where_the_clock_goes_and_stays_when_a_worker_joins(member: Member) -> None:
    first = member()
    assert {CUTS, STATE} <= owns(first)
    first.wait("owns")
    second = member()
    first.wait("recovered", 2)
    assert {CUTS, STATE} <= owns(first)
    assert not {CUTS, STATE} & owns(second)
    queries = [{t for t in owns(m) if ".queries" in t} for m in (first, second)]
    assert [len(part) for part in queries] == [2, 2]
    assert len(queries[0] | queries[1]) == 4
    assert len(first["owns"]) == 1  # it went on writing: no new generation for a worker that joins
    assert not first["disowned"]
    assert not second["owns"]


@pytest.mark.thorough
def test_a_worker_that_takes_over_reads_nothing_of_a_large_changelog(member: Member) -> None:
    first = member()
    first.wait("owns")
    first.command("claim")
    first.command("page 1500")  # 94 MB
    first.wait("done", 2)
    second = member()
    first.wait("recovered", 2)
    assert len(first["owns"]) == 1
    first.process.kill()
    second.wait("owns")
    assert {CUTS, STATE} <= owns(second)
    assigned, recovered = second["assigned"][-1], second["recovered"][-1]
    assert recovered["time"] - assigned["time"] < 0.5
    second.command("claim")
    assert second.wait("written")["offset"] == 1501
    assert not second["foreign"]


def test_a_later_claim_of_another_worker_is_reported_at_once(
    member: Member, kafka: Kafka, topics: str
) -> None:
    owner = member()
    owner.wait("owns")
    owner.command("claim")
    owner.wait("done")
    other = clients.producer(kafka.connection)
    name = Topics(topics).state
    other.produce(name, key=b"junk", value=b"junk", partition=0)
    claim = ClaimKey(b"x" * 16)
    other.produce(name, key=claim.encode(), value=encode_claim(claim, Claim("other")))
    assert other.flush(PATIENCE_SECONDS) == 0
    owner.command("page 1")
    assert owner.wait("foreign")["generation"] == 2
    owner.command("claim")
    owner.command("page 2")
    owner.wait("done", 4)
    assert len(owner["foreign"]) == 1


@pytest.mark.thorough
def test_a_later_claim_is_reported_at_a_rebalance_too(
    member: Member, kafka: Kafka, topics: str
) -> None:
    owner = member()
    owner.wait("owns")
    owner.command("claim")
    owner.wait("done")
    other = clients.producer(kafka.connection)
    name = Topics(topics).state
    claim = ClaimKey(b"x" * 16)
    other.produce(name, key=claim.encode(), value=encode_claim(claim, Claim("other")))
    assert other.flush(PATIENCE_SECONDS) == 0
    member()
    assert owner.wait("foreign")["generation"] == 1


@pytest.mark.parametrize("partitions", [None, 3])
def test_a_state_topic_that_is_missing_or_too_wide_is_one_sentence(
    kafka: Kafka, prefix: str, tmp_path: Path, partitions: int | None
) -> None:
    admin, name = clients.admin(kafka.connection), Topics(prefix).state
    table = [replace(t, partitions=3) if t.name == name else t for t in Topics(prefix).table()]
    table = [t for t in table if partitions or t.name != name]
    create(admin, table)
    try:
        with running(kafka.bootstrap, prefix, tmp_path / "data") as process:
            assert process.exit_code() == 1
            sentence = process.wait("refused")["sentence"]
            assert name in sentence
            assert "murmurec topics apply" in sentence
    finally:
        delete(admin, [topic.name for topic in table])


@pytest.mark.thorough
def test_a_state_topic_that_is_deleted_under_a_worker_ends_it_with_a_sentence(
    member: Member, kafka: Kafka, topics: str
) -> None:
    owner = member()
    owner.wait("owns")
    owner.command("claim")
    owner.wait("done")
    delete(clients.admin(kafka.connection), [Topics(topics).state])
    owner.command("page 1")
    assert owner.exit_code() == 1
    assert Topics(topics).state in owner.wait("refused")["sentence"]
