"""Shards under load: workers killed, frozen beside their successor, and moved; states compared.

    every shard applies --> one is killed, or frozen while another process takes its shard
            |                                                             |
            +-- state at a cut == that of a replica which follows the logs  <--- thawed, and ended

At the end every shard has merged every change, and together they have counted every record once.
"""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np

from stream_app.kafka import clients
from stream_app.kafka import topic_admin as broker_topics
from stream_app.kafka.clients import Connection
from stream_app.settings import load as settings_of
from stream_app.wire import Topics
from tests.chaos.deployment import SPEC, SPEED
from tests.chaos.figures import Figures
from tests.chaos.load import Load
from tests.chaos.points import Point
from tests.chaos.processes import Life, environment
from tests.chaos.reference import Reference
from tests.fixtures.small_worker import opened
from tests.fixtures.waiting import PATIENCE_SECONDS, until
from tests.stream_app.state.test_exchange import exact

Report = Callable[[str, int], None]
_MOST_SECONDS = 1.0


def run(
    shards: int, seed: int, kills: int, bootstrap: str, folder: Path, report: Report = print
) -> Figures:
    """Kill, freeze or move so many workers of a deployment of its own; return the findings."""
    began = time.monotonic()
    with ExitStack() as stack:
        siege = ShardSiege(shards, seed, bootstrap, folder, stack)
        while siege.figures.kills < kills:
            what = ("killed", "frozen", "moved")[int(siege.rng.choice(3, p=(0.6, 0.2, 0.2)))]
            shard = int(siege.rng.integers(shards))
            report(f"{shards} shards: shard {shard} {what}", siege.figures.kills)
            siege.strike(shard, what)
        siege.finish()
    siege.figures.seconds = time.monotonic() - began
    return siege.figures


class ShardSiege:
    """Load, a worker for each shard and its reference."""

    def __init__(
        self, shards: int, seed: int, bootstrap: str, folder: Path, stack: ExitStack
    ) -> None:
        self.rng, self.figures = np.random.default_rng(seed), Figures()
        self._stack, self._folder = stack, folder
        names = Topics(f"chaos-{secrets.token_hex(6)}", shards)
        admin, table = clients.admin(Connection(bootstrap)), names.table()
        broker_topics.create(admin, table)
        stack.callback(broker_topics.delete, admin, [topic.name for topic in table])
        self._where = ["--bootstrap", bootstrap, "--prefix", names.prefix]
        spec = SPEC | {"MURMUREC_SHARDS": str(shards), "MURMUREC_TUNING_HEAD_ITEMS": "512"}
        self._environment = environment(
            {**spec, **SPEED, "MURMUREC_DATA_DIR": str(folder / "data")}
        )
        flags = {
            name.removeprefix("MURMUREC_").removeprefix("TUNING_").lower(): text
            for name, text in spec.items()
        }
        settings = settings_of(bootstrap_servers=bootstrap, **flags)  # type: ignore[arg-type]
        self._references = [
            Reference(bootstrap, each, replace(opened(settings), shard=each.shard))
            for each in names.of_shards()
        ]
        for reference in self._references:
            stack.callback(reference.close)
        self._load = stack.enter_context(Load(bootstrap, names, seed))
        self._born = 0
        self._lives = [self._bear(shard) for shard in range(shards)]
        for life in self._lives:
            life.running.wait_until_ready()
            life.applies_beyond(0, PATIENCE_SECONDS)

    def _bear(self, shard: int) -> Life:
        """Start a worker of a shard."""
        self._born += 1
        own = {"MURMUREC_SHARD": str(shard), "MURMUREC_INSTANCE": f"w{self._born}"}
        life = Life(f"w{self._born}", self._where, {**self._environment, **own}, self._folder)
        life.start()
        self._stack.callback(life.end)
        return life

    def strike(self, shard: int, what: str) -> None:
        """Kill a worker and start it again, or freeze it, or stop it, while another takes over."""
        time.sleep(float(self.rng.uniform(0, _MOST_SECONDS)))
        life = self._lives[shard]
        cut = max(life.as_of(), 0)
        began = time.monotonic()
        if what == "killed":
            life.kill()
            life.gone()
            life.start()
        elif what == "frozen":
            os.kill(life.pid, signal.SIGSTOP)
            self._lives[shard] = self._bear(shard)
        elif (code := life.stop()) != 0:
            self.figures.wrong.append(f"{life.name} ended with exit code {code} on SIGTERM")
        if what == "moved":
            self._lives[shard] = self._bear(shard)
        self.figures.kills += 1
        self.figures.aimed[Point.TIME] += 1
        for each in self._lives:
            seconds = each.applies_beyond(cut if each is self._lives[shard] else 0, 60.0) - began
            if each is self._lives[shard]:
                self.figures.again.setdefault(f"to applying again, {what}", []).append(seconds)
        if what == "frozen":  # the zombie writes what it had under way, and is fenced
            os.kill(life.pid, signal.SIGCONT)
            time.sleep(float(self.rng.uniform(0, _MOST_SECONDS)))
            life.end()
        self._compare()

    def _compare(self) -> None:
        for shard, (life, reference) in enumerate(zip(self._lives, self._references, strict=True)):
            state = life.running.state()
            held, right = (
                (state["model_digest"], state["ledger_digest"]),
                reference.at(state["cut"]),
            )
            self.figures.compared += 1
            if held != right:
                ours = reference.replica.merged
                raise AssertionError(
                    f"shard {shard}, cut {state['cut']}: {held}, not {right}; "
                    f"{state['merged']} merged, by the log {ours}"
                )
            self.figures.wrong += reference.wrong
            reference.wrong.clear()

    def finish(self) -> None:
        """Apply and exchange everything, compare, and stop."""
        ends = self._load.pause()
        self.figures.records = self._load.sent
        shards, states = len(self._lives), [life.running.state() for life in self._lives]

        def exchanged() -> bool:
            states[:] = [life.running.state() for life in self._lives]
            read = all(
                state["positions"][p] == end
                for p, end in enumerate(ends)
                for state in [states[p % shards]]
            )
            merged = {tuple(state["merged"]) for state in states}
            return read and len(merged) == 1 and not any(s["unshared"] for s in states)

        try:
            until(exchanged, "the shards have not exchanged everything", 60.0, pause=0.2)
        except AssertionError as error:
            held = [(each["cut"], each["merged"], each["unshared"]) for each in states]
            error.add_note(
                f"{held}; by the references {[r.replica.merged for r in self._references]}"
            )
            raise
        self._compare()
        total: Counter[str] = Counter()
        for state in states:
            total.update({name: state["counts"][name] for name in self._load.expected})
        if total != self._load.expected:
            self.figures.wrong.append(f"counts {total}, not {self._load.expected}")
        self._compare_shared()
        for life in self._lives:
            if (code := life.stop()) != 0:
                self.figures.wrong.append(f"{life.name} ended with exit code {code} on SIGTERM")

    def _compare_shared(self) -> None:
        """What is exchanged becomes equal in every shard: counts, sketches, and at last the pairs,
        which an idle shard publishes."""
        odd: list[str] = []

        def equal() -> bool:
            for reference in self._references:
                reference.follow(0.2)
            found = [exact(reference.replica) for reference in self._references]
            odd[:] = [
                name
                for name, array in found[0].items()
                if any(array.tobytes() != each[name].tobytes() for each in found[1:])
            ]
            return not odd

        try:
            until(equal, "the shards hold the same sums", pause=0.2)
        except AssertionError:
            self.figures.wrong.append(f"the shards do not hold the same {', '.join(odd)}")
