"""The HTTP views of a worker: one port, on loopback unless `admin_host` names another address.

/livez      whether the process works
/readyz     whether the state is caught up, and if not the reason
/metrics    Prometheus; of several shards with the label `shard`
/state      cut, positions and digests, all of one cut; the current counts

Queries come over Kafka; a gateway takes those over HTTP (`stream_app/gateway/list_pages.py`).
How many connections there may be, for how long, and under which names and tokens:
`stream_app/web/`.
"""

from __future__ import annotations

import time
from typing import Any

import faust
import msgspec

from stream_app import __version__
from stream_app.agents.runtime import Runtime
from stream_app.monitoring.collectors import CONTENT_TYPE


def attach(app: faust.App, runtime: Runtime) -> None:
    """Add the views to the application."""

    @app.page("/livez")
    async def livez(web: Any, _: Any) -> Any:
        return web.json({"alive": runtime.status.failure is None})

    @app.page("/readyz")
    async def readyz(web: Any, _: Any) -> Any:
        reason = runtime.ready_reason()
        return web.json(
            {"ready": not reason, "waiting_for": reason or None}, status=503 if reason else 200
        )

    @app.page("/metrics")
    async def metrics(web: Any, _: Any) -> Any:
        spec = runtime.replica.spec
        labels = {"shard": str(spec.shard)} if spec.shards > 1 else {}
        page = runtime.metrics.exposition(**labels)
        return web.bytes(page, headers={"Content-Type": CONTENT_TYPE})

    @app.page("/state")
    async def state(web: Any, _: Any) -> Any:
        try:
            return web.json(await state_of(runtime))
        except TimeoutError:
            sentence = "a round has stayed open: records that its cut names are missing"
            return web.json({"error": sentence}, status=503)


async def state_of(runtime: Runtime) -> dict[str, Any]:
    """Return cut, positions and digests, all of one cut, and the current counts."""
    digests = await runtime.digests()
    replica, status, reason = runtime.replica, runtime.status, runtime.ready_reason()
    comparison = runtime.replacement.comparison
    return {
        "cut": digests.cut,
        "positions": list(digests.end_offsets),
        "model_digest": digests.model,
        "ledger_digest": digests.ledger,
        "design_digest": replica.spec.digest,
        "settings": replica.spec.public_settings,
        "version": __version__,
        "time": time.time(),
        "base": msgspec.to_builtins(replica.origin),
        "other_design": status.other_spec or None,
        "other_base": comparison.other_origin or None,
        "ready": not reason,
        "waiting_for": reason or None,
        "clock": status.clock_owned,
        "checkpoint": runtime.checkpoints.status() if runtime.checkpoints else None,
        "replicas_agreed": comparison.agreed,
        "lag_records": runtime.gauges.lag_records,
        "merged": list(replica.shared.numbers) if replica.shared else None,
        "unshared": replica.shared.unshared if replica.shared else None,
        "counts": replica.ledger.counts(),
        "rejected": replica.ledger.rejected(),
        "cells_missing": runtime.gauges.cells_missing,
        "cuts_ignored": status.cuts_ignored,
        "catalogue_rejected": dict(runtime.catalogue.rejected),
        "devices": replica.marks.devices,
        "items": len(replica.items),
        "mechanisms": [m.id for m in replica.spec.mechanisms],
        "reports_by_mechanism": replica.reports_by_mechanism(),
        "privacy": replica.privacy,
        "privacy_mode": replica.spec.privacy_mode,
        "campaign": replica.campaigns.summary() if replica.campaigns else None,
        "model": replica.learner.name,
        "index": runtime.recommender.index.method,
        "search": runtime.recommender.search_level(),
        "memory_bytes": runtime.gauges.memory(),
        "quality": runtime.gauges.quality(),
    }
