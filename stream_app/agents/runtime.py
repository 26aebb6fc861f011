"""The replica of one worker and what is applied to it; the stages share one `Runtime`.

    reader thread --Decoded--> learn (event loop: replica, gauges, index) <-- query, http_views
                 \\--cut--> cut log

Only the event loop changes a `Runtime`. Other threads use `status` (readiness, progress, failure),
`replacement` (whether the state is to be replaced) and the catalogue, which the reader thread fills
by replacing one reference. The checkpoint thread reads frozen pages of the state; a pool thread
reads the seen filter for a gauge.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog
from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector

from stream_app.agents.checkpointing.digest_comparison import Digests
from stream_app.agents.checkpointing.replacement_policy import ReplacementPolicy
from stream_app.agents.checkpointing.restore import Restored
from stream_app.agents.worker_status import ASKING_FOR_ENDS, Lag, WorkerStatus
from stream_app.deployment import (
    new_replica,
    seal_from_settings,
    settings_in_force,
)
from stream_app.kernels.instrumentation import seconds_in_kernels
from stream_app.monitoring.gauges import Gauges
from stream_app.monitoring.metrics import Metrics
from stream_app.privacy.exact.report_information import report_information_nats
from stream_app.replay.recompute import redesign
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.ranked_items import RankedItems, Refused
from stream_app.serving.recommender import Recommender, similar_items
from stream_app.settings import Settings
from stream_app.state.design import changes
from stream_app.state.outcome import rejected
from stream_app.state.replica import Replica
from stream_app.state.spec import StateSpec
from stream_app.wire import (
    LIST_LENGTH,
    Batch,
    CampaignEntry,
    Cut,
    DigestReport,
    Forget,
    Item,
    Rejection,
    Tail,
    Topics,
    encode_message,
)
from stream_app.wire.authenticity.seal import OPEN, Seal
from stream_app.wire.exchange import Change

if TYPE_CHECKING:
    from stream_app.agents.checkpointing.checkpoint_service import CheckpointService
    from stream_app.agents.exchange_writer import ExchangeWriter
    from stream_app.agents.ranking_service import RankingService

log = structlog.get_logger()

_SAMPLE = 8  # every eighth query is also answered exactly, to measure the recall
_SCORED = 2000  # fewer queries where there are more items than this for each of them


@dataclass(eq=False)
class Runtime:
    """One worker's replica and what is derived from it; make it inside a running loop."""

    settings: Settings
    topics: Topics
    replica: Replica
    catalogue: Catalogue
    recommender: Recommender
    gauges: Gauges
    reject: Callable[[Rejection], None]
    status: WorkerStatus = field(default_factory=WorkerStatus)
    cut_offset: int = 0
    tails: tuple[Tail | None, ...] = ()
    """The last records before the newest cut (`Manifest.tails`)."""
    mid_round: bool = False
    checkpoints: CheckpointService | None = None
    ranking: RankingService | None = None
    exchange: ExchangeWriter | None = None
    seal: Seal = OPEN
    append: Callable[[bytes], None] = lambda _: None
    """Appends an entry to the cut log."""
    _cut_waiters: list[asyncio.Future[None]] = field(default_factory=list)
    _round_seconds: float = 0.0
    _answered: int = 0
    _privacy_at: tuple[int, str] = (-1, "")

    def __post_init__(self) -> None:
        self.replacement = ReplacementPolicy(
            self.replica,
            self.metrics,
            self.settings.data_dir / "evidence" / self.settings.topic_prefix,
            self.status.fail,
            lambda report: self.append(encode_message(report.sealed(self.seal))),
            lambda: self.mid_round,
        )

    @property
    def metrics(self) -> Metrics:
        """The metrics of the /metrics view."""
        return self.gauges.metrics

    # --- the log --------------------------------------------------------------------------

    def apply(self, batch: Batch) -> None:
        """Apply one batch, measure its effects, and publish its rejections."""
        started = time.perf_counter()
        self.mid_round = True
        compiled, applying = seconds_in_kernels(), time.perf_counter()
        outcome = self.replica.apply(batch)
        applying, inside = time.perf_counter() - applying, seconds_in_kernels() - compiled
        self.gauges.watch(outcome)
        self.recommender.mark_stale(outcome.rows)
        for rejection in rejected(self.topics.ratings, batch, outcome):
            self.reject(rejection)
        if outcome.reused.any():
            log.warning(
                "seq.reused",
                records=int(outcome.reused.sum()),
                partition=batch.partition,
                offset=int(batch.offsets[outcome.reused.argmax()]),
            )
        taken = time.perf_counter() - started
        self._round_seconds += taken
        compiled = seconds_in_kernels() - compiled
        self.metrics.learning_thread("kernels", compiled)
        self.metrics.learning_thread("applying", applying - inside)
        self.metrics.learning_thread("measuring", taken - applying - (compiled - inside))

    def end_round(self, cut: Cut, cut_offset: int, tails: tuple[Tail | None, ...] = ()) -> None:
        """Close a round, and wake the coroutines that wait for a cut."""
        started, compiled = time.perf_counter(), seconds_in_kernels()
        replaced = self.replica.end_round(cut.number, cut.end_offsets, cut.accepted_days)
        self.gauges.replaced(replaced)
        self.recommender.replaced(replaced)
        self.cut_offset, self.tails = cut_offset, tails
        self.mid_round = False
        if self.checkpoints is not None:
            self.checkpoints.at_cut(cut, cut_offset, self._round_seconds)
        if self.ranking is not None:
            self.ranking.at_cut()
        if self.exchange is not None:
            self.exchange.at_cut()
        self.recommender.refresh()
        self.metrics.round_applied(cut.number, self._round_seconds, time.time())
        self._round_seconds = 0.0
        for waiter in self._cut_waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._cut_waiters.clear()
        compiled = seconds_in_kernels() - compiled
        self.metrics.learning_thread("kernels", compiled)
        taken = time.perf_counter() - started
        self.metrics.learning_thread("ending_rounds", taken - compiled)

    def forget(self, entry: Forget) -> None:
        """Forget a device from this cut on; with `rebuild`, replace the state by one without it."""
        if entry.rebuild:
            self.replacement.rebuild_without(entry)
            return
        self.replica.forget(bytes.fromhex(entry.device))
        self.mid_round = True  # the entry belongs to the round that begins with it
        log.info("device.forgotten", cut=self.replica.cut)

    def follow(self, entry: CampaignEntry) -> None:
        """Apply an entry of a campaign from this cut on."""
        ignored = self.replica.follow(entry)
        self.mid_round = True  # the entry belongs to the round that begins with it
        kind = type(entry).__name__.lower()
        if ignored is not None:
            log.warning("campaign.ignored", entry=kind, reason=str(ignored), cut=self.replica.cut)
        elif self.replica.campaigns is not None:
            log.info("campaign.followed", entry=kind, cut=self.replica.cut)

    def merge(self, changes: Sequence[Change], ends: tuple[int, ...]) -> None:
        """Merge changes of the shards from this cut on."""
        started = time.perf_counter()
        rows = self.replica.merge(changes, ends)
        self.recommender.mark_stale(rows)
        self.mid_round = True  # the entry belongs to the round that begins with it
        self.metrics.changes_merged(len(changes), time.perf_counter() - started)

    async def redesign(self, spec: StateSpec, *, takes_over: bool) -> None:
        """Take up another design from this cut on; one that takes over has a state of its own,
        which replaces this one while queries are answered from it."""
        if takes_over:
            self.replacement.take_over()
            return
        if self.checkpoints is not None:
            await self.checkpoints.idle()
        before, items = self.replica.spec, self.replica.items
        self.mid_round = True  # the entry belongs to the round that begins with it
        # A longer head is copied in tenths of a second: queries are answered meanwhile, and nothing
        # else changes the state or freezes it in the middle of a round.
        await asyncio.to_thread(redesign, self.replica, spec)
        if self.replica.spec == before:
            return
        if self.replica.items is not items or bool(before.head_items) != bool(spec.head_items):
            self._restart_derived()
        self._designed()
        if self.checkpoints is not None:
            self.checkpoints.restart(None)
        changed = "; ".join(f"{c.setting} {c.before} -> {c.after}" for c in changes(before, spec))
        log.info("design.in_force", cut=self.replica.cut, changes=changed)

    def _designed(self) -> None:
        """Follow the spec of the replica, which is another one."""
        spec = self.replica.spec
        self.settings = settings_in_force(self.settings, spec)
        self.gauges.follow_design()
        self.replacement.comparison.follow(spec.digest)
        self.metrics.clip_threshold(spec.clip)
        for mechanism in spec.allowed:
            self.metrics.epsilon_claimed(mechanism.id, str(mechanism.adjacency), mechanism.epsilon)
            self.metrics.report_information(mechanism.id, report_information_nats(mechanism))

    def compare(self, report: DigestReport) -> None:
        """Compare the digests of another replica with our own; reports of this worker are
        skipped, and those of a cut that no replica can have reached."""
        if report.cut > self.replica.cut:
            return
        if self.checkpoints is None or not self.checkpoints.wrote(report):
            self.replacement.comparison.add_report(report)

    async def restore(self, restored: Restored) -> None:
        """Replace the state, and everything derived from it."""
        if self.checkpoints is not None:
            await self.checkpoints.idle()
        if restored.found is not None:
            self.replica.take(restored.found.replica)
            manifest = restored.found.manifest
            self.cut_offset, self.tails = manifest.cut_offset, manifest.tails
        elif (
            self.replica.cut
            or self.mid_round
            or (self.replica.origin, self.replica.spec) != (restored.origin, restored.spec)
        ):
            self.replica.restart(restored.origin, restored.spec)
            self.cut_offset, self.tails = 0, ()
        self._designed()
        self.mid_round = False
        self.status.step = ASKING_FOR_ENDS
        self.replacement.restart()
        self._restart_derived()
        if self.checkpoints is not None:
            self.checkpoints.restart(restored.found.manifest if restored.found else None)
        log.info("state.restored", cut=self.replica.cut, checkpoint=restored.found is not None)

    def _restart_derived(self) -> None:
        self.recommender.restart()
        self.gauges.restart()
        if self.ranking is not None:
            self.ranking.restart()

    # --- requests -------------------------------------------------------------------------

    def ready_reason(self) -> str:
        """Return why the worker does not answer queries from a state that is caught up, empty when
        it does."""
        return self.state_reason() or self.status.queries

    def state_reason(self) -> str:
        """Return why the state is not caught up, empty when it is."""
        reload = self.replacement.reload
        reason = reload.reason if reload and not reload.serving else ""
        return self.status.waiting_for(self.replica.end_offsets, reason)

    @property
    def catching_up(self) -> bool:
        """Whether answers still lack ratings that the log held when this worker started."""
        return self.replacement.reload is not None or self.status.is_replaying(
            self.replica.end_offsets
        )

    async def at_cut(self, seconds: float = 10.0) -> None:
        """Wait until the state is exactly that of a cut; TimeoutError where a round stays open."""
        async with asyncio.timeout(seconds):
            while self.mid_round:
                waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._cut_waiters.append(waiter)
                await waiter

    async def digests(self) -> Digests:
        """Return cut, positions and digests; hashed off the event loop.

        Raises TimeoutError where a round stays open for 10 s.
        """
        async with asyncio.timeout(10.0):
            assert self.checkpoints is not None, "attached before the first request"
            return await self.checkpoints.digests()

    def answer(self, device: bytes, arrived: float, *, now: bool) -> RankedItems:
        """Answer one query, measure its time since `arrived` (perf_counter), and sample its
        recall; `now`: for this visit."""
        answer = self.recommender.answer(device, LIST_LENGTH, now=now)
        self.metrics.query_answered(answer.method, time.perf_counter() - arrived)
        self._answered += 1
        if self._answered % max(_SAMPLE, self.recommender.candidates // _SCORED) == 0:
            recall = self.recommender.recall(device, LIST_LENGTH)
            self.gauges.recall(recall)
            if self.recommender.level.observe(recall):
                log.info("search.shortlist", **self.recommender.search_level())
        return answer

    def similar(self, item: Item, arrived: float) -> RankedItems | Refused:
        """Answer a query for items near to one, and measure its time since `arrived`."""
        found = similar_items(self.recommender, item, LIST_LENGTH)
        if isinstance(found, RankedItems):
            self.metrics.query_answered(found.method, time.perf_counter() - arrived)
        return found

    @property
    def privacy(self) -> str:
        """The privacy mode of the reports that have come, `local` or `none`; `+split` or `+central`
        where this deployment follows campaigns."""
        mode = self.replica.spec.privacy_mode
        return self.replica.privacy + ("" if mode == "local" else f"+{mode}")

    @property
    def privacy_at_cut(self) -> str:
        """`privacy` as it was after the newest cut: enough for a refusal, and costs nothing."""
        cut = self.replica.cut
        if self._privacy_at[0] != cut:
            self._privacy_at = cut, self.privacy
        return self._privacy_at[1]


def new_runtime(settings: Settings, spec: StateSpec) -> Runtime:
    """Return the replica with its gauges and index, and start compiling the kernels."""
    replica, catalogue = new_replica(spec), Catalogue()
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    metrics = Metrics(registry)
    metrics.build({"model": settings.model})
    recommender = Recommender(
        replica,
        catalogue,
        settings.index,
        recall=settings.recall,
    )
    gauges = Gauges(metrics, replica, recommender)
    runtime = Runtime(
        settings,
        Topics(settings.topic_prefix, spec.shards, spec.shard),
        replica,
        catalogue,
        recommender,
        gauges,
        reject=lambda _: None,
        seal=seal_from_settings(settings),
    )
    runtime.status.lag = Lag(settings.ready_lag_seconds)
    metrics.privacy_mode(replica.privacy, spec.privacy_mode)
    runtime._designed()
    runtime.status.kernels.start(spec, settings.index)
    return runtime
