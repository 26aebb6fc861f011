"""What a population of devices needs, by the costs of a rating, merge, query, device and item.

R ratings and Q queries a second at the peak, S shards, I items. Shards exchange every M ratings of
all of them together, T = M / R seconds apart. A change of n = R T / S ratings has

    rows    D(n) = sum_i (1 - exp(-n p_i)),  p_i = 1 / (i H_I)          items by a Zipf law
    cells   n/m h^2 (1 - exp(-m c / h^2))       of a head of h items, sent after m ratings each

as far as a record has room. Every worker makes one change and merges S in every exchange:

    busy = R/S rating + Q/S (query + scan of I)
           + 1/T (publish + compare I) + S/T (change + rows row + cells cell)

`next_step` is the design after that; nothing of it is built.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from research.scale.costs import Assumed, Costs

DAY, MONTH_HOURS, US = 86_400.0, 730.0, 1e-6
_FIXED_TOPICS, _WRITING = 8, 0.2  # partitions of the other topics; share of the time
_MESSAGE_US, _ANSWER_BYTES = 63.0, 252.0  # between processes; a vector, and ten items with scores


def distinct(draws: float, items: float) -> float:
    """Return how many of the items some of `draws` ratings have, on average."""
    edges = np.geomspace(1.0, items + 1.0, 4_000)
    width, middle = np.diff(edges), np.sqrt(edges[1:] * edges[:-1])
    expected = draws / (width / middle).sum() / middle
    return float(-(width * np.expm1(-expected)).sum())


@dataclass(frozen=True)
class Population:
    """Devices and items, with what they cost."""

    devices: float
    items: float
    costs: Costs
    assumed: Assumed

    @property
    def rate(self) -> float:
        """Ratings a second at the peak."""
        return self.devices * self.assumed.ratings * self.assumed.peak / DAY

    def change(self, ratings: float) -> tuple[float, float]:
        """Return CPU seconds and bytes of a change that so many ratings made."""
        costs, square = self.costs, self.costs.head**2
        paired = min(1.0, math.log1p(costs.head) / math.log1p(self.items))
        rows = distinct(ratings, self.items)
        each = -square * math.expm1(-costs.tables * costs.cells * paired / square) / costs.tables
        cells = ratings * each
        merged = costs.change_us + rows * costs.row_us + cells * costs.cell_us
        return merged * US, rows * costs.row_bytes + cells * costs.cell_bytes


class Plan(NamedTuple):
    """A deployment at the peak: seconds, bytes, and shares of one core of each worker."""

    people: Population
    shards: int
    interval: float  # between two exchanges
    publish_seconds: float  # CPU of making one change
    change_seconds: float  # CPU of merging one
    change_bytes: float
    query_seconds: float  # CPU of one query
    queries: float  # a second, of all
    busy: float
    memory: float  # of a worker
    read: float  # bytes a second of changes into each worker
    sent: float  # bytes a second of changes out of all brokers
    partitions: int
    brokers: int
    replay: float  # seconds of work that a restart repeats
    lag: float  # the longest after a worker was killed
    level: float  # seconds until the shard is level with the others; infinite if never
    dollars: float  # a month
    limits: dict[str, float]  # what more shards do not relieve, of what the rest leaves

    @property
    def first(self) -> str:
        """The resource that breaks first."""
        return max(self.limits, key=self.limits.__getitem__)

    @property
    def worst(self) -> float:
        """What that resource has of its limit; above 1 the plan breaks."""
        return self.limits[self.first]


def plan(people: Population, shards: int) -> Plan:
    """Return the deployment of so many shards, one worker each."""
    costs, assumed, rate = people.costs, people.assumed, people.rate
    publishing = (costs.publish_us + costs.publish_items_us * people.items / 1e6) * US
    interval = max(assumed.meeting / rate, costs.turn_seconds + publishing)
    change_seconds, change_bytes = people.change(rate * interval / shards)
    room = change_bytes / costs.room_bytes
    change_seconds, change_bytes = (each / max(room, 1) for each in (change_seconds, change_bytes))
    merging, making = shards * change_seconds / interval, publishing / interval
    read = shards * change_bytes / interval
    if shards == 1:
        merging = making = read = room = 0.0
    queries = people.devices * assumed.queries * assumed.peak / DAY
    query_seconds = (costs.query_us + costs.scan_us * people.items / 1e6) * US
    learning = rate / shards * costs.rating_us * US + merging  # what a replay repeats
    busy = learning + making + queries / shards * query_seconds
    own = people.devices / shards * costs.device_bytes
    items = people.items * costs.item_bytes + costs.process_bytes
    memory = own + items
    # Between two checkpoints nearly every page changes.
    due, possible = assumed.replay_seconds / learning, memory / costs.written / _WRITING
    replay = max(due, possible) * learning
    saved = shards * memory / max(due, possible)
    rated = rate * (costs.rating_bytes + costs.message_bytes / assumed.ratings)
    written, sent = rated + read + saved, shards * read
    kept = (rated + read) / assumed.peak * assumed.retention_days * DAY + 2 * shards * memory
    partitions = 6 * shards + _FIXED_TOPICS
    needed = (
        written * assumed.copies / assumed.network,
        (rated + sent + written * (assumed.copies - 1)) / assumed.network,
        partitions * assumed.copies / assumed.broker_partitions,
        kept * assumed.copies / assumed.broker_bytes,
    )
    brokers = math.ceil(max(assumed.copies, *needed))
    up = assumed.session_seconds + costs.start_seconds + memory / costs.restored
    lag = up + replay
    worker = assumed.worker_cores * assumed.core_hour + 2 * memory / 1e9 * assumed.memory_hour
    moved = (sent + written * (assumed.copies - 1)) / assumed.peak * MONTH_HOURS * 3600 / 1e9
    dollars = MONTH_HOURS * (shards * worker + brokers * assumed.broker_hour)
    dollars += kept * assumed.copies / 1e9 * assumed.disk_month + moved * assumed.transfer
    limits = {
        "exchange": _share(merging + making, assumed.core - busy + merging + making),
        "items": _share(items, assumed.worker_bytes - own),
        "network": read / assumed.network,
        "checkpoints": possible / due,
        "room": room,
    }
    level = lag / (1 - busy) if busy < 1 else math.inf
    return Plan(
        people, shards, interval, publishing, change_seconds, change_bytes, query_seconds, queries,
        busy, memory, read, sent, partitions, brokers, replay, lag, level, dollars, limits,
    )  # fmt: skip


def _share(part: float, room: float) -> float:
    return part / room if room > 0 else math.inf


def fewest(people: Population) -> Plan:
    """Return the plan of the fewest shards, a power of two, within every limit; where none is, the
    one that is the least beyond one."""
    plans = [plan(people, 1 << n) for n in range(int(people.assumed.most_shards).bit_length())]
    fitting = (each for each in plans if each.worst <= 1)
    return next(fitting, min(plans, key=lambda each: each.worst))


class NextStep(NamedTuple):
    """The design after all-to-all exchange and whole item sides.

    Changes add: a tree of `summers` in each of two levels sums those of all shards, and a worker
    merges one. Items are divided among `item_shards`, with their index and what shards agreed on;
    a worker keeps the rows that a day of its ratings touches, and a query takes the best of all.
    """

    interval: float
    summers: int
    exchange: float  # share of a core
    read: float  # bytes a second into each worker
    item_shards: int
    memory: float  # of a worker
    query_seconds: float  # CPU of one query in all machines
    query_bytes: float  # a second, between workers and item shards


def next_step(now: Plan, interval: float = 10.0) -> NextStep:
    """Return what the population needs with a tree, an exchange in so many seconds, and items
    divided."""
    people, costs = now.people, now.people.costs
    room = people.assumed.worker_bytes - costs.process_bytes
    seconds, read = people.change(people.rate * interval)
    parts = math.ceil(people.items * costs.item_bytes / room)
    exchange = (seconds + now.publish_seconds / parts) / interval
    rows = distinct(people.devices * people.assumed.ratings / now.shards, people.items)
    memory = people.devices / now.shards * costs.device_bytes + rows * costs.item_bytes
    return NextStep(
        interval, math.ceil(math.sqrt(now.shards)), exchange, read / interval, parts,
        memory + costs.process_bytes, now.query_seconds + 2 * parts * _MESSAGE_US * US,
        now.queries * parts * _ANSWER_BYTES,
    )  # fmt: skip
