"""Every interleaving of a small scope: two pages, two cuts, two faults, one compaction.

    two processes    a owns at first; each reads the topic in two pieces, freezes at any cut
    network          any order of requests; those of the dead at any time, or never
    faults           a crash, or a takeover that the former owner hears of at any time, or never
    compaction       once, at any time, removes all that is superseded, and tombstones
    retention        at any time, removes what a recovery would not read and no owner has under way

States that differ only in how they were reached are visited once. In each of them a fresh recovery
must find a whole checkpoint that holds the reference, within the log and not before what the log
still holds.

Left out is what makes no difference: of the topic only the newest record of each key is kept, for
nothing else can be read, but for the keys that a reader has seen before their tombstone came and
went; claims move the offsets on and nothing else does, for only their order matters; rounds are
followed where one freezes; and an acknowledgement comes with its request, for the requests that it
lets go take as long as they like.
"""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from stream_app.log.checkpoint import Acked, Disown, Durable, Event, Freeze, Own, Send, Writer
from stream_app.log.recovery import Recovery
from tests.simulation.broker import FIRST_OFFSET
from tests.simulation.process import Variant
from tests.simulation.world import BASE, World

Topic = frozenset[tuple[bytes, bytes]]
"""The newest record of each key that has a value."""

Request = tuple[int, int, bytes, bytes | None]
"""Oldest cut that it has to do with, token, key, value."""


@dataclass(frozen=True, eq=False, slots=True)
class Worker:
    """A process; `told` is what it has still to hear."""

    writer: Writer
    live: bool = False
    prefix: Topic = frozenset()
    """What it read before it paused in the topic; after compaction, what of it is a ghost."""
    cut: int = 0
    owns: bool = False
    told: tuple[bool, ...] = ()
    frozen: int = 0
    durable: int = 0
    requests: tuple[Request, ...] = ()

    @property
    def oldest_cut(self) -> int:
        """The oldest cut that this process has to do with."""
        written = self.durable or self.frozen or self.cut
        return min(self.cut, written) if self.requests else self.cut

    def key(self) -> tuple[Any, ...]:
        """Return what decides the future of this process, whatever tokens it has given."""
        w = self.writer
        names = {token: key for token, (_, key, _) in w._in_flight.items()}
        manifest = w._manifest and (w._manifest.number, w._manifest.cut, w._frozen is None)
        return (
            self.live, self.prefix, self.cut, self.owns, self.told, self.frozen, self.durable,
            tuple(sorted((cut, key, token in names) for cut, token, key, _ in self.requests)),
            w.generation, w._claim and w._claim[0], w._reach, tuple(w._stale),
            w._durable and (w._durable.number, w._durable.cut), manifest,
            tuple(w._pages), tuple(w._tombstones), tuple(sorted(w._written)),
        )  # fmt: skip


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """Everything at one moment."""

    topic: Topic
    end: int
    kept_from: int
    workers: tuple[Worker, Worker]
    late: tuple[Request, ...]
    owner: int
    faults: int
    compactions: int

    def key(self) -> tuple[Any, ...]:
        """Return the same for two nodes with the same future."""
        a, b = self.workers
        late = tuple(sorted((cut, key) for cut, _, key, _ in self.late))
        return (
            self.topic, self.end, self.kept_from, a.key(), b.key(), late, self.owner, self.faults,
            self.compactions,
        )  # fmt: skip


@dataclass
class Search:
    """Visits every node; `violations` are at most a handful, each with its trail."""

    variant: Variant = field(default_factory=Variant)
    faults: int = 2
    compactions: int = 1
    bound: int = 1
    world: World = field(default_factory=lambda: World(7, rounds=2, pages=2, most=1))
    most_states: int = 10**7
    states: int = 0
    transitions: int = 0
    violations: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._found: dict[tuple[Topic, Topic], tuple[int, list[bytes], int]] = {}
        self._interned: dict[Any, int] = {}

    def run(self) -> None:
        """Search until everything was visited or something was violated."""
        writers = [self.variant.writer(self.bound) for _ in range(2)]
        workers = (Worker(writers[0], told=(True,)), Worker(writers[1]))
        first = Node(frozenset(), FIRST_OFFSET, 0, workers, (), 0, self.faults, self.compactions)
        seen, waiting = {self._key(first)}, deque([first])
        while waiting and self.states < self.most_states and not self.violations:
            node = waiting.popleft()
            self.states += 1
            self._check(node)
            for following in self._successors(node):
                self.transitions += 1
                key = self._key(following)
                if key not in seen:
                    seen.add(key)
                    waiting.append(following)

    def _key(self, node: Node) -> tuple[Any, ...]:
        """Return the node's key with its parts as numbers: most parts are shared by many."""
        numbers = self._interned
        return tuple(
            part if isinstance(part, int) else numbers.setdefault(part, len(numbers))
            for part in node.key()
        )

    # --- what may happen next -------------------------------------------------------------

    def _successors(self, node: Node) -> Iterator[Node]:
        for index, worker in enumerate(node.workers):
            yield from self._own_steps(node, index, worker)
            for at, request in enumerate(worker.requests):
                landed = _land(node, request)
                moved = replace(worker, requests=_without(worker.requests, at))
                yield _with(landed, index, _stepped(moved, Acked(request[1], node.end)))
            if node.faults:
                yield from self._faults(node, index, worker)
        for at, request in enumerate(node.late):
            yield replace(_land(node, request), late=_without(node.late, at))
        if node.compactions:
            yield self._compact(node)
        yield from self._trim(node)

    def _own_steps(self, node: Node, index: int, worker: Worker) -> Iterator[Node]:
        """What a process does by itself: start, hear, follow, freeze, take acknowledgements."""
        if not worker.live:
            cut = self._recovered(node, worker.prefix)[0]
            yield _with(node, index, replace(worker, live=True, prefix=frozenset(), cut=cut))
            if node.compactions and not worker.prefix:
                yield _with(node, index, replace(worker, prefix=node.topic))
            return
        if worker.told:
            yield self._hear(node, index, worker)
        if worker.cut < node.kept_from:
            yield self._end(node, index, worker, node.owner)
        elif worker.writer.ready:
            for cut in range(worker.frozen + 1, self.world.rounds + 1):
                if cut >= worker.cut:
                    frozen = self.world.freeze(self.world.reference[cut], cut)
                    moved = replace(worker, cut=cut, frozen=cut)
                    yield _with(node, index, _stepped(moved, Freeze(frozen)))

    def _hear(self, node: Node, index: int, worker: Worker) -> Node:
        worker = replace(worker, told=worker.told[1:], owns=worker.told[0], frozen=0, durable=0)
        if not worker.owns:
            return _with(node, index, _stepped(worker, Disown()))
        _, keys, reach = self._recovered(node)
        owner = bytes([index]) * 16
        return _with(node, index, _stepped(worker, Own(owner, "", keys, reach)))

    def _faults(self, node: Node, index: int, worker: Worker) -> Iterator[Node]:
        fewer = replace(node, faults=node.faults - 1)
        if worker.live:
            for owner in (0, 1) if node.owner == index else (node.owner,):
                yield self._end(fewer, index, worker, owner)
        if node.owner != index:
            former = node.workers[node.owner]
            moved = _with(fewer, node.owner, replace(former, told=(*former.told, False)))
            yield replace(
                _with(moved, index, replace(worker, told=(*worker.told, True))), owner=index
            )

    def _end(self, node: Node, index: int, worker: Worker, owner: int) -> Node:
        """End a process; where it owned the clock, `owner` does now."""
        owned = node.owner == index
        born = Worker(self.variant.writer(self.bound))
        late = (*node.late, *(r for r in worker.requests if r[2][:1] != b"C"))
        node = replace(_with(node, index, born), late=late, owner=owner)
        heir = node.workers[owner]
        return _with(node, owner, replace(heir, told=(*heir.told, True))) if owned else node

    def _compact(self, node: Node) -> Node:
        """Compact: of what a reader has read there remain to it only keys whose tombstone went."""
        held = {key for key, _ in node.topic}
        a, b = (
            replace(w, prefix=frozenset(r for r in w.prefix if r[0] not in held))
            for w in node.workers
        )
        return replace(node, workers=(a, b), compactions=node.compactions - 1)

    def _trim(self, node: Node) -> Iterator[Node]:
        cut, _, _ = self._recovered(node)
        owners = [w.oldest_cut for w in node.workers if w.owns]
        requests = (*node.workers[0].requests, *node.workers[1].requests, *node.late)
        removals = [r[0] for r in requests if r[3] is None]
        cut = min([cut, *owners, *removals])
        if cut > node.kept_from:
            yield replace(node, kept_from=cut)

    # --- what must hold -------------------------------------------------------------------

    def _check(self, node: Node) -> None:
        cut, _, _ = self._recovered(node)
        if cut < node.kept_from:
            self.violations.append(f"neither checkpoint nor log: cut {cut} is no longer kept")

    def _recovered(self, node: Node, prefix: Topic = frozenset()) -> tuple[int, list[bytes], int]:
        """Return the cut of the checkpoint in the topic, its keys, and how far it reaches, to one
        who has read `prefix` before."""
        ghosts = prefix if prefix and not node.compactions else frozenset()
        read = (ghosts, node.topic)
        known = self._found.get(read)
        if known is None:
            recovery = self.variant.recover()
            for key, value in (*sorted(ghosts), *sorted(node.topic)):
                recovery.read(node.end, key, value)
            known = self._found[read] = self._read(recovery)
        return known

    def _read(self, recovery: Recovery) -> tuple[int, list[bytes], int]:
        found = recovery.newest()
        cut = 0 if found is None else found.manifest.cut
        if found is not None and self.world.load(found) != self.world.reference[cut]:
            self.violations.append(f"the checkpoint at cut {cut} holds another state")
        return cut, recovery.keys, recovery.reach(BASE)


def _land(node: Node, request: Request) -> Node:
    """Append a request's record; only a claim moves the offsets on."""
    _, _, key, value = request
    if key[:1] == b"C":
        return replace(node, end=node.end + 1)
    topic = frozenset(record for record in node.topic if record[0] != key)
    if value is not None:
        topic |= {(key, value)}
    return replace(node, topic=topic)


def _stepped(worker: Worker, event: Event) -> Worker:
    """Return the process after its writer took an event."""
    writer = _copied(worker.writer)
    outputs = writer.step(event)
    durable = next((o.manifest.cut for o in outputs if isinstance(o, Durable)), worker.durable)
    cut = min(worker.cut, durable or worker.frozen or worker.cut)
    sent = [(cut, o.token, o.key, o.value) for o in outputs if isinstance(o, Send)]
    requests = (*worker.requests, *sent)
    return replace(worker, writer=writer, durable=durable, requests=requests)


def _copied(writer: Writer) -> Writer:
    """Return a copy that shares only what does not change."""
    other = copy.copy(writer)
    for name, value in vars(other).items():
        if isinstance(value, dict | set | deque):
            setattr(other, name, value.copy())
    return other


def _with(node: Node, index: int, worker: Worker) -> Node:
    a, b = node.workers
    return replace(node, workers=(a, worker) if index else (worker, b))


def _without(items: tuple[Any, ...], at: int) -> tuple[Any, ...]:
    return items[:at] + items[at + 1 :]
