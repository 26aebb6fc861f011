"""The driver: a deployment under load, its workers killed by a plan, and their states compared.

    every worker applies --> kill at a point --> the dead worker restarts --> applies again
                                                                                    |
                digests of /state == those of the reference at that cut  <----------+

A point of a start (a claim, a recovery, a replay) takes two kills; the first causes the start.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from stream_app.kafka import topic_follower
from stream_app.kafka.clients import Connection
from tests.chaos.asker import Asker
from tests.chaos.deployment import Deployment, Setup
from tests.chaos.figures import Figures
from tests.chaos.load import Load
from tests.chaos.points import Kill, Point, plan
from tests.chaos.processes import Life
from tests.chaos.reference import Reference
from tests.chaos.watcher import Watcher
from tests.fixtures.given_worker import given_worker
from tests.fixtures.waiting import PATIENCE_SECONDS, until

Report = Callable[[str, int], None]

_BURST = 6000


def run(
    setup: Setup,
    seed: int,
    kills: int,
    bootstrap: str,
    folder: Path,
    report: Report = print,
    more: Mapping[str, str] | None = None,
) -> Figures:
    """Kill at least so many workers on topics of their own and return the findings.

    `report` is called with the next kill and how many are dead; `more` is set in the environment of
    the workers.

    Raises AssertionError or UserError where a worker does not come back.
    """
    began = time.monotonic()
    with ExitStack() as stack:
        deployment = Deployment(setup, bootstrap, folder, stack, more or {})
        siege = Siege(setup, deployment, seed, folder, stack)
        for number, kill in enumerate(plan(seed, kills, setup.workers)):
            if siege.figures.kills >= kills:
                break
            report(f"{setup}: {kill.point} ({kill.victim})", siege.figures.kills)
            try:
                siege.carry_out(kill)
            except Exception as error:
                error.add_note(f"{setup}, seed {seed}, kill {number}: {kill}; logs: {folder}")
                raise
        siege.finish()
        figures = siege.figures
    figures.seconds = time.monotonic() - began
    return figures


class Siege:
    """Load, watcher and reference of one run, and the kills of its workers."""

    def __init__(
        self, setup: Setup, deployment: Deployment, seed: int, folder: Path, stack: ExitStack
    ) -> None:
        self.setup = setup
        self.figures = Figures()
        self._deployment = deployment
        self._lives = deployment.lives
        self._killed_time = 0.0
        bootstrap, topics = deployment.bootstrap, deployment.topics
        self._journal = (folder / "chaos.log").open("w", buffering=1)
        stack.callback(self._journal.close)
        self._reference = Reference(bootstrap, topics, deployment.spec)
        stack.callback(self._reference.close)
        self._watcher = Watcher(bootstrap, topics)
        stack.callback(self._watcher.close)
        self._client = stack.enter_context(given_worker(Connection(bootstrap), topics.prefix))
        self._load = stack.enter_context(Load(bootstrap, topics, seed))
        for life in self._lives:
            life.start()
            life.running.wait_until_ready()
        for life in self._lives:
            life.applies_beyond(0, PATIENCE_SECONDS)
        # A query counts as unanswered only where the readers of the queries had formed their group.
        self._answer_beyond(0)

    # --- killing --------------------------------------------------------------------------

    def carry_out(self, kill: Kill) -> None:
        """Kill once, or twice for a point of a start; then wait until all workers apply again."""
        self._write(str(kill))
        victims = self._victims(kill)
        if kill.point.is_of_a_start:
            self._kill(victims, Point.TIME, hit=True)
            self._restart_and_kill(victims, kill)
        elif kill.point.is_of_the_writer:
            fired = self._watcher.arm(kill.point, kill.amount, self._kill_the_writer)
            victims = self._after(fired, kill)
        else:
            self._at_random(kill)
            self._kill(victims, kill.point, hit=True)
        self._come_back(victims)
        self._compare()

    def _write(self, what: str) -> None:
        """Log a step, for the analysis of a failed run."""
        now = time.strftime("%H:%M:%S")
        writer = self._watcher.writer
        self._journal.write(f"{now} {what}; cut {self._watcher.cut}, writer {writer}\n")

    def _victims(self, kill: Kill) -> list[Life]:
        self._watcher.settle()
        _until(lambda: self._owner() is not None, "no worker claims a generation")
        owner = self._owner()
        assert owner is not None
        others = [life for life in self._lives if life is not owner]
        return {"owner": [owner], "other": others or [owner], "all": self._lives}[kill.victim]

    def _owner(self) -> Life | None:
        """Return the worker of the newest claim, which names host and instance, or host and
        process; None where none of the workers made it."""
        name = self._watcher.writer.rpartition(":")[2]
        matching = (life for life in self._lives if name in (life.name, str(life.pid)))
        return next(matching, None)

    def _kill_the_writer(self) -> bool:
        """Kill the owner; false where the newest claim is of a dead worker."""
        owner = self._owner()
        return owner is not None and owner.kill()

    def _at_random(self, kill: Kill) -> None:
        if kill.point is Point.COUNT:
            wanted = self._load.sent + int(kill.amount * 400)
            _until(lambda: self._load.sent >= wanted, "the load has stopped")
        else:
            threading.Event().wait(kill.amount)

    def _kill(self, victims: list[Life], point: Point, hit: bool) -> None:
        for life in victims:
            life.kill()
        self._dead(victims, point)
        self.figures.hit[point] += len(victims) * hit

    def _dead(self, victims: list[Life], point: Point) -> None:
        self._write(f"{point}: {', '.join(life.name for life in victims)} killed")
        for life in victims:
            life.gone()
            self.figures.kills += 1
            self.figures.aimed[point] += 1
        self._killed_time = time.monotonic()
        self._watcher.settle()

    def _after(self, fired: threading.Event, kill: Kill) -> list[Life]:
        """Wait for the watcher to kill, and return the killed workers."""
        if not fired.wait(PATIENCE_SECONDS):
            self._watcher.disarm()
            raise AssertionError(
                f"no worker reached this point within {PATIENCE_SECONDS:.0f} s: {kill}; "
                f"{self._watcher.writer} wrote last, {self._watcher.where}; {self._readers()}"
            )
        dead = [life for life in self._lives if life is self._owner()]
        self._dead(dead, kill.point)
        self.figures.died[self._watcher.where] += 1
        self.figures.hit[kill.point] += self._watcher.where == kill.point
        return dead

    def _restart_and_kill(self, victims: list[Life], kill: Kill) -> None:
        if kill.point.is_of_the_writer:
            fired = self._watcher.arm(kill.point, kill.amount, self._kill_the_writer)
            for life in victims:
                life.start()
            for life in self._after(fired, kill):
                if life not in victims:  # the other one had taken over
                    victims.append(life)
            return
        if kill.point is Point.REPLAYING:
            self._load.burst(_BURST)
        for life in victims:
            life.start()
        self._kill(victims, kill.point, self._wait_in_a_start(victims[0], kill))

    def _wait_in_a_start(self, life: Life, kill: Kill) -> bool:
        """Wait for the phase of a start; return whether it was seen before it was over."""
        if kill.point is Point.STARTING:
            threading.Event().wait(kill.amount * 1.2)
            return True
        phase = "reading the checkpoint" if kill.point is Point.READING else "replaying the log"
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            life.running.check()
            if phase in life.waits_for():
                return True
            if life.as_of() >= self._watcher.cut > 0 and not life.waits_for():
                return False  # it was too fast to be seen
        raise AssertionError(
            f"{life.name} never was ready: {life.waits_for()}; its log: {life.running.log}"
        )

    # --- coming back ----------------------------------------------------------------------

    def _come_back(self, victims: list[Life]) -> None:
        cut, killed_time = self._watcher.cut, self._killed_time
        alive = any(life not in victims for life in self._lives)
        deployment = self._deployment
        connection = Connection(deployment.bootstrap)
        with Asker(connection, deployment.topics, alive, self._readers) as asker:
            for life in victims:
                if life.running.process.poll() is not None:
                    life.start()
            for life in victims:
                seconds = life.applies_beyond(cut, PATIENCE_SECONDS) - killed_time
                self._note(f"to applying again, {self.setup}", seconds)
            for life in self._lives:
                life.applies_beyond(cut, PATIENCE_SECONDS)
        self._answer_beyond(cut)
        self.figures.answers += asker.answers
        self.figures.unanswered += asker.unanswered
        self.figures.longest_answer_seconds = max(
            self.figures.longest_answer_seconds, asker.longest_seconds
        )

    def _readers(self) -> str:
        """Return what every worker says of itself, and how many queries it has counted."""
        said = []
        for life in self._lives:
            try:
                counted = life.running.metrics()
            except (OSError, ValueError) as error:
                said.append(f"{life.name}: {error}")
                continue
            queries = {n: v for n, v in counted.items() if n.startswith("queries_total")}
            said.append(f"{life.name}: {life.waits_for() or 'ready'}, {queries}")
        return "; ".join(said)

    def _answer_beyond(self, cut: int) -> None:
        """Return when an answer of a later cut has come from every partition of the queries."""

        def answered(partition: int) -> bool:
            reply = self._client.on(partition)
            return reply is not None and reply.as_of > cut

        for partition in self._client.partitions:
            sentence = f"no answer beyond cut {cut} on partition {partition} of the queries"
            _until(partial(answered, partition), sentence)

    def _note(self, name: str, seconds: float) -> None:
        self.figures.again.setdefault(name, []).append(seconds)

    # --- comparing ------------------------------------------------------------------------

    def _compare(self) -> None:
        for life in self._lives:
            state = life.running.state()
            held = state["model_digest"], state["ledger_digest"]
            right = self._reference.at(state["cut"])
            self.figures.compared += 1
            if held != right:
                self.figures.wrong.append(f"{life.name} at cut {state['cut']}: {held}, not {right}")
        for sentence in self._reference.wrong:
            self.figures.wrong.append(sentence)
        self._reference.wrong.clear()

    def finish(self) -> None:
        """Apply everything, compare with the log replayed from its beginning, and stop cleanly."""
        end_offsets = self._load.pause()
        states = [life.running.wait_for(end_offsets) for life in self._lives]
        self._compare()
        for state in states:
            counts = {name: state["counts"][name] for name in self._load.expected}
            if counts != dict(self._load.expected):
                self.figures.wrong.append(f"counts {counts}, not {dict(self._load.expected)}")
        self._compare_rejections()
        digest = json.loads(self._command("state", "digest", "--json"))
        right = self._reference.at(digest["cut"])
        if (digest["model_digest"], digest["ledger_digest"]) != right:
            self.figures.wrong.append(f"state digest printed {digest}, not {right}")
        workers = [word for life in self._lives for word in ("--worker", life.running.url)]
        self._command("state", "verify", *workers)
        for life in self._lives:
            if (code := life.stop()) != 0:
                self.figures.wrong.append(f"{life.name} ended with exit code {code} on SIGTERM")
        self._command("state", "verify")
        self.figures.digest_reports = self._reference.digest_reports
        self.figures.checkpoints = self._watcher.checkpoints
        self.figures.records = self._load.sent

    def _compare_rejections(self) -> None:
        """Every rejected record was published, although its publisher was killed in between."""
        published = {
            bytes(message.key() or b"")
            for message in topic_follower.records(
                Connection(self._deployment.bootstrap), self._deployment.topics.rejected
            )
        }
        expected = self._load.expected["rejected"]
        if len(published) != expected:
            self.figures.wrong.append(f"{len(published)} rejections published, not {expected}")

    def _command(self, *words: str) -> str:
        code, printed, complaint = self._deployment.command(*words)
        if code != 0:
            self.figures.wrong.append(f"murmurec {' '.join(words)}: {complaint or printed}")
        return printed or "{}"


def _until(condition: Callable[[], bool], otherwise: str) -> None:
    until(condition, otherwise, pause=0.005)
