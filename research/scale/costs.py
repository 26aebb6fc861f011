"""What things cost (`Costs`, measured on two virtual cores) and what is assumed (`Assumed`).

CPU is in microseconds of one core, sizes in bytes. Each number has its benchmark of
`tests/benchmarks`, or the layout that it follows from."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace


@dataclass(frozen=True)
class Costs:
    """What was measured."""

    # `sizing`, medium: 370,000 ratings, 250 queries a second of CPU; 100 ratings a device.
    rating_us: float = 2.7
    query_us: float = 4_000.0
    scan_us: float = 115.0  # of 1,000,000 items: `search_peers`, pca
    # Replicas that exchange, 10,000 to 1,000,000 items: changes of 17,772 items, or 8,886 and
    # 370,000 cells, made, read and merged by another: 12 to 25, 2 to 4, and 7 to 22 ms.
    row_us: float = 1.3
    cell_us: float = 0.02
    change_us: float = 500.0
    publish_us: float = 11_000.0
    publish_items_us: float = 14_000.0  # 1,000,000 items
    row_bytes: float = 108.0
    cell_bytes: float = 3.0
    room_bytes: float = 2_097_152.0  # of a change; what does not fit goes with the next
    tables: float = 500_000.0  # ratings of a shard between two changes with pairs
    cells: float = 55.0  # pairs of a rating: the list of a device on its way to 100, a visit of 5
    head: float = 2_048.0  # items that have pairs
    # `sizing`: 340 with 20 ratings; 80 more in list and filter, 320; a row and its scalars.
    device_bytes: float = 800.0
    # Row 144, directory 60, index 120, and what shards agreed on, 35 integers, 280.
    item_bytes: float = 604.0
    # `sizing`, medium, empty: 246 MiB, and its pairs once more, as what shards agreed on.
    process_bytes: float = 310e6
    rating_bytes: float = 8.6  # `sizing`: 136, 15, 10 with 1, 20, 200 in a message
    message_bytes: float = 127.4
    # `large_state`: ready 8, 8, 13 s after SIGKILL with .1, .6, 1.6 GB; 10 s to write 1 GiB.
    start_seconds: float = 8.0
    restored: float = 200e6  # bytes a second
    written: float = 107e6
    turn_seconds: float = 0.5  # from a change to its merge: two cuts of .2 s, and the broker


@dataclass(frozen=True)
class Assumed:
    """What nobody measured: people, machines, brokers, and list prices in dollars."""

    ratings: float = 5.0  # a device and day, in one message
    queries: float = 1.0  # a device and day
    peak: float = 2.0  # the busiest hour against the mean
    meeting: float = 1_000_000.0  # ratings of all shards between two exchanges
    core: float = 0.6  # share of one core that a worker may need at the peak
    worker_bytes: float = 16e9  # resident; it is given twice that
    network: float = 500e6  # bytes a second into a worker, and in or out of a broker
    most_shards: float = 1_024.0
    broker_partitions: float = 4_000.0  # copies counted
    broker_bytes: float = 8e12
    copies: float = 3.0
    retention_days: float = 7.0
    # `replay_seconds` of a large deployment: by the default, 2, checkpoints are most traffic.
    replay_seconds: float = 60.0
    session_seconds: float = 6.0  # until a group notices a death
    core_hour: float = 0.04
    memory_hour: float = 0.005  # a GB
    disk_month: float = 0.08  # a GB
    transfer: float = 0.01  # a GB between zones: changes read, and copies
    worker_cores: float = 2.0
    broker_hour: float = 0.48  # 8 cores, 32 GB


def changed(values: dict[str, float]) -> tuple[Costs, Assumed]:
    """Return the numbers, some of them set; ValueError for one that is none of them."""
    names = [{field.name for field in fields(each)} for each in (Costs, Assumed)]
    for name, value in values.items():
        if name not in names[0] | names[1] or not value > 0:
            known = ", ".join(sorted(names[0] | names[1]))
            raise ValueError(f"{name}={value:g}: give a value above 0 of one of {known}")
    costs, assumed = ({n: v for n, v in values.items() if n in known} for known in names)
    return replace(Costs(), **costs), replace(Assumed(), **assumed)
