"""On which shards a command acts, and which topics they have."""

from __future__ import annotations

import pytest

from stream_app.deployment import Deployment
from stream_app.errors import UserError
from stream_app.operations.forget import rebuildable_origin
from stream_app.operations.session import Session, each_shard, of_device
from stream_app.settings import Settings
from stream_app.wire import Topics
from stream_app.wire.ids import partition_of

FOUR = Settings(bootstrap_servers="127.0.0.1:1", shards=4, partitions=8)


def test_a_command_acts_on_the_shard_that_is_named_or_on_all() -> None:
    assert [each.shard for each in each_shard(FOUR)] == [0, 1, 2, 3]
    assert [each.shard for each in each_shard(FOUR.model_copy(update={"shard": 2}))] == [2]
    assert each_shard(Settings()) == (Settings(),)


def test_what_one_shard_alone_can_do_asks_for_its_name() -> None:
    with pytest.raises(UserError, match=r"shards = 4: .* name one"):
        Session.from_settings(FOUR)


@pytest.mark.parametrize("device", ["0" * 32, "c61c15392dcb4c0181d456afb280a046", "f" * 32])
def test_a_device_is_forgotten_by_the_shard_that_reads_its_partition(device: str) -> None:
    """Whichever shard the setting names."""
    partition = partition_of(device.encode(), 8)
    for settings in (FOUR, FOUR.model_copy(update={"shard": 0})):
        deployment = Deployment.from_settings(of_device(settings, device))
        assert partition in deployment.spec.owned
        assert deployment.topics.cuts == f"murmurec.shard-{partition % 4}.cuts.v1"
    assert of_device(Settings(), device) == Settings()


def test_a_device_cannot_be_taken_back_from_other_shards() -> None:
    deployment = Deployment.from_settings(FOUR.model_copy(update={"shard": 1}))
    with pytest.raises(UserError, match="without --rebuild"):
        rebuildable_origin(Session(FOUR, deployment, None))


def test_each_shard_has_a_cut_log_and_a_state_and_all_have_one_exchange() -> None:
    table = {each.name: each for each in Topics("own", 4).table(8, features=("shards",))}
    alone = {each.name for each in Topics("own").table(8, features=())}
    own = {f"own.shard-{s}.{name}.v1" for s in range(4) for name in ("cuts", "state")}
    assert table.keys() - alone == own | {"own.exchange.v1"}
    assert alone - table.keys() == {"own.cuts.v1", "own.state.v1"}
    assert all(table[name].partitions == 1 for name in own)
    exchange = table["own.exchange.v1"]
    assert (exchange.partitions, exchange.counted_by) == (4, "shards")
    kept = ("cleanup.policy", "retention.ms", "retention.bytes")
    assert [exchange.config[name] for name in kept] == ["delete", "-1", "-1"]
