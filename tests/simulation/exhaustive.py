"""Every interleaving of a small scope: two pages, two cuts, two faults, one compaction.

    two processes    a owns at first; each reads the topic in two pieces, freezes at any cut
    network          any order of requests; those of the dead at any time, or never
    faults           a crash, or a takeover that the former owner learns of at any time, or never
    compaction       once, at any time, removes all that is superseded, and tombstones
    retention        at any time, removes what a recovery would not read and no owner has under way

States that differ only in how they were reached are visited once. In each of them a fresh recovery
must find a whole checkpoint that holds the reference, and the log must reach back to it.

Details that make no difference are left out. Of the topic only the newest record of each key is
kept, except for keys that a reader has seen before their tombstone came and was removed. Offsets
are those of claims, since only their order matters; claims are not recorded. Rounds are applied at
a freeze. An acknowledgement arrives with its request, since the requests that it releases may take
any time.

A node is a tuple of numbers: topics, processes and bundles of late requests are numbered as they
are met, so that what a process does in one node is known in all others.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from stream_app.checkpoints.protocol.recovery import greatest_cut
from stream_app.checkpoints.protocol.writer import Acked, Freeze, LeaseAcquired, LeaseReleased
from tests.simulation.process import Variant
from tests.simulation.scope import EMPTY, Node, Numbers, Request, Topic, Worker, contents
from tests.simulation.world import BASE, World

_NEWER = 10**6  # an offset after every generation
T = TypeVar("T")


@dataclass
class Search:
    """Visits every node until one violates an invariant."""

    variant: Variant = field(default_factory=Variant)
    faults: int = 2
    compactions: int = 1
    bound: int = 1
    world: World = field(default_factory=lambda: World(1, rounds=2, pages=2, most=2))
    most_states: int = 10**7
    states: int = 0
    violations: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._topics: Numbers[Topic] = Numbers(lambda topic: topic)
        self._workers = Numbers(Worker.future)
        self._late: Numbers[tuple[Request, ...]] = Numbers(contents)
        self._known: dict[tuple[Any, ...], Any] = {}

    def run(self) -> None:
        """Search until everything was visited or something was violated."""
        a, b = self._born()._replace(mail=(True,)), self._born()
        workers = self._workers.of(a), self._workers.of(b)
        topic, late = self._topics.of(EMPTY), self._late.of(())
        first = Node(topic, 0, workers, late, 0, self.faults, self.compactions)
        seen, waiting = {first}, deque([first])
        while waiting and self.states < self.most_states and not self.violations:
            node = waiting.popleft()
            self.states += 1
            cut = self._recovered(node.topic)[0]
            if cut < node.kept_from:
                self.violations.append(f"neither checkpoint nor log: cut {cut} is no longer kept")
            for following in self._successors(node):
                if following not in seen:
                    seen.add(following)
                    settled = self._settled(following)
                    if settled is following or settled not in seen:
                        seen.add(settled)
                        waiting.append(settled)

    def _born(self) -> Worker:
        return Worker(self.variant.writer(self.bound))

    def _once(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """Return what `make` gives, asking once for each key."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]

    # --- what may happen next -------------------------------------------------------------

    def _successors(self, node: Node) -> Iterator[Node]:
        for index in (0, 1):
            yield from self._own_steps(node, index)
            yield from self._arrivals(node, index)
            if node.faults:
                yield from self._faults(node, index)
        late = self._late.things[node.late]
        for at, request in enumerate(late):
            rest = self._once(("rest", node.late, at), partial(self._left, late, at))
            topic = self._land(node.topic, request)
            yield Node(topic, node.kept_from, node.workers, rest, *node[4:])
        if node.compactions:
            yield self._compact(node)
        trimmed = self._trimmed(node)
        if trimmed != node:
            yield trimmed

    def _own_steps(self, node: Node, index: int) -> Iterator[Node]:
        """What a process does by itself: read, start, read mail, follow and freeze."""
        number = node.workers[index]
        worker = self._workers.things[number]
        if not worker.live:
            cut = self._recovered(node.topic, worker.prefix if not node.compactions else EMPTY)[0]
            yield self._step(
                node, index, ("start", number, cut),
                lambda: worker._replace(live=True, prefix=EMPTY, cut=cut),
            )  # fmt: skip
            if node.compactions and not worker.prefix:
                read = self._topics.things[node.topic]
                yield self._step(
                    node, index, ("read", number, node.topic), lambda: worker._replace(prefix=read)
                )
            return
        if worker.mail:
            yield self._read_mail(node, index)
        if worker.cut < node.kept_from:
            yield self._end(node, index, node.owner)
        elif worker.writer.ready:
            for cut in range(max(worker.frozen + 1, worker.cut), self.world.rounds + 1):
                frozen = self.world.freeze(self.world.reference[cut], cut)
                make = partial(worker.moved, Freeze(frozen), cut=cut, frozen=cut)
                yield self._step(node, index, ("freeze", number, cut), make)

    def _read_mail(self, node: Node, index: int) -> Node:
        number = node.workers[index]
        worker = self._workers.things[number]
        notified = worker._replace(mail=worker.mail[1:], owns=worker.mail[0], frozen=0, durable=0)
        if not notified.owns:
            make = partial(notified.moved, LeaseReleased())
            return self._step(node, index, ("disown", number), make)
        _, keys, reach = self._recovered(node.topic)
        make = partial(notified.moved, LeaseAcquired(bytes([index]) * 16, "", keys, reach))
        return self._step(node, index, ("own", number, node.topic), make)

    def _arrivals(self, node: Node, index: int) -> Iterator[Node]:
        """Let any request of a process arrive, and be acknowledged."""
        number = node.workers[index]
        worker = self._workers.things[number]
        for at, request in enumerate(worker.requests):
            offset = 0 if request.generation else self._next_offset(node)
            landed = Node(self._land(node.topic, request), *node[1:])
            rest = _without(worker.requests, at)
            make = partial(worker.moved, Acked(request.token, offset), requests=rest)
            yield self._step(landed, index, ("ack", number, at, offset), make)

    def _faults(self, node: Node, index: int) -> Iterator[Node]:
        fewer = Node(*node[:5], node.faults - 1, node.compactions)
        if self._workers.things[node.workers[index]].live:
            for owner in (0, 1) if node.owner == index else (node.owner,):
                yield self._end(fewer, index, owner)
        if node.owner != index:
            moved = self._notify(self._notify(fewer, node.owner, False), index, True)
            yield Node(*moved[:4], index, *moved[5:])

    def _end(self, node: Node, index: int, owner: int) -> Node:
        """End a process; where it owned the clock, `owner` does now."""
        number = node.workers[index]
        requests = [r for r in self._workers.things[number].requests if r.generation]
        late = self._once(
            ("late", node.late, number),
            lambda: self._late.of((*self._late.things[node.late], *requests)),
        )
        ended = self._step(node, index, ("born",), self._born)
        ended = Node(*ended[:3], late, owner, *ended[5:])
        return self._notify(ended, owner, True) if node.owner == index else ended

    def _left(self, late: tuple[Request, ...], at: int) -> int:
        return self._late.of(_without(late, at))

    def _compact(self, node: Node) -> Node:
        """Compact: of what a reader has read there remain to it only keys whose tombstone went."""
        held = {key for key, _ in self._topics.things[node.topic]}
        for index in (0, 1):
            worker = self._workers.things[node.workers[index]]
            if worker.prefix:
                ghosts = frozenset(record for record in worker.prefix if record[0] not in held)
                node = self._with(node, index, worker._replace(prefix=ghosts))
        return Node(*node[:6], node.compactions - 1)

    def _trimmed(self, node: Node) -> Node:
        """Return the node after retention has removed all that it may remove."""
        cut = self._recovered(node.topic)[0]
        if cut <= node.kept_from:
            return node
        a, b = (self._workers.things[number] for number in node.workers)
        owners = (w.written_cut if w.requests else w.cut for w in (a, b) if w.owns)
        requests = (*a.requests, *b.requests, *self._late.things[node.late])
        removals = (r.cut for r in requests if r.value is None)
        cut = min((cut, *owners, *removals))
        return Node(node.topic, cut, *node[2:]) if cut > node.kept_from else node

    def _settled(self, node: Node) -> Node:
        """Return the node after retention, if that overtakes no process: then it affects only the
        invariants, and the earliest retention is the hardest case for them."""
        trimmed = self._trimmed(node)
        workers = (self._workers.things[number] for number in node.workers)
        overtakes = any(w.live and w.cut < trimmed.kept_from for w in workers)
        return node if overtakes else trimmed

    def _land(self, topic: int, request: Request) -> int:
        """Return the topic with a request's record appended."""
        key, value = request.key, request.value
        return topic if not request.generation else self._once(
            ("land", topic, key, value),
            lambda: self._topics.of(_appended(self._topics.things[topic], key, value)),
        )  # fmt: skip

    def _next_offset(self, node: Node) -> int:
        """Return an offset greater than every generation of a record, request or process."""
        spoken = [int.from_bytes(key[-8:]) for key, _ in self._topics.things[node.topic]]
        spoken += [request.generation for request in self._late.things[node.late]]
        spoken += [self._workers.things[number].newest_generation for number in node.workers]
        return 1 + max(spoken)

    def _notify(self, node: Node, index: int, owns: bool) -> Node:
        number = node.workers[index]
        worker = self._workers.things[number]
        return self._step(
            node, index, ("mail", number, owns),
            lambda: worker._replace(mail=(*worker.mail, owns)),
        )  # fmt: skip

    def _step(
        self, node: Node, index: int, key: tuple[Any, ...], make: Callable[[], Worker]
    ) -> Node:
        """Return the node after a process became what `make` gives, once for each key."""
        number = self._once(key, lambda: self._workers.of(make()))
        return self._put(node, index, number)

    def _with(self, node: Node, index: int, worker: Worker) -> Node:
        return self._put(node, index, self._workers.of(worker))

    @staticmethod
    def _put(node: Node, index: int, number: int) -> Node:
        a, b = node.workers
        return Node(*node[:2], (a, number) if index else (number, b), *node[3:])

    # --- invariants -----------------------------------------------------------------------

    def _recovered(self, topic: int, ghosts: Topic = EMPTY) -> tuple[int, list[bytes], int]:
        """Return the cut of the checkpoint in a topic, its keys, and its greatest cut, for a
        reader that has read `ghosts` before."""
        found: tuple[int, list[bytes], int] = self._once(
            ("recover", topic, ghosts), lambda: self._recover(self._topics.things[topic], ghosts)
        )
        return found

    def _recover(self, topic: Topic, ghosts: Topic) -> tuple[int, list[bytes], int]:
        store = self.world.store()
        streamed = self.variant.recover(store)
        held = [*sorted(ghosts), *sorted(topic)]
        for at, (key, value) in enumerate(held):
            streamed.read(_NEWER + at, key, value)
        found = streamed.decide()
        while isinstance(found, int):
            for at in range(max(found - _NEWER, len(ghosts)), len(held)):
                streamed.read(_NEWER + at, *held[at])
            found = streamed.decide()
        cut = 0 if found is None else found.manifest.cut
        if found and self.world.load(found.manifest, store) != self.world.reference[cut]:
            self.violations.append(f"the checkpoint at cut {cut} holds another state")
        rules = streamed.rules
        line = rules.design, rules._topic_id, BASE
        return cut, rules.keys, greatest_cut(rules.manifests, line)


def _appended(topic: Topic, key: bytes, value: bytes | None) -> Topic:
    rest = frozenset(record for record in topic if record[0] != key)
    return rest if value is None else rest | {(key, value)}


def _without(items: tuple[T, ...], at: int) -> tuple[T, ...]:
    return items[:at] + items[at + 1 :]
