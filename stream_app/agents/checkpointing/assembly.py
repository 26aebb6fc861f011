"""The checkpoint service of a worker, tied to the state topic and to the group's assignment."""

from __future__ import annotations

import os
import platform

import faust
import structlog

from stream_app.agents.checkpointing.checkpoint_service import CheckpointService
from stream_app.agents.checkpointing.fenced_producer import FencedProducer, gap_reader
from stream_app.agents.checkpointing.state_topic_scan import StateTopicScan
from stream_app.agents.faust_ext import state_table
from stream_app.agents.faust_ext.group_membership import Membership
from stream_app.agents.rejections import RejectionWriter, patient_producer
from stream_app.agents.runtime import Runtime
from stream_app.checkpoints import checkpoint_reader
from stream_app.kafka import clients
from stream_app.kafka.clients import Connection

log = structlog.get_logger()


def attach(
    app: faust.App,
    runtime: Runtime,
    connection: Connection,
    membership: Membership,
    rejections: RejectionWriter,
    scan: StateTopicScan,
) -> CheckpointService:
    """Add the state's table and return the service; the worker that has the table checkpoints.

    `runtime.append` must be set before the first checkpoint: the digests go into the cut log.
    """
    settings, topics, status = runtime.settings, runtime.topics, runtime.status
    topic_id = checkpoint_reader.topic_id(clients.admin(connection), topics.ratings)

    def on_later_claim(generation: int) -> None:
        log.warning("checkpoint.claimed_by_another", generation=generation)
        table.step_down()

    fenced = FencedProducer(
        patient_producer(
            connection,
            linger_ms=5,
            compression_type="lz4",
            **clients.LARGE_BATCHES,
        ),
        topics.state,
        status.fail_from_thread,
        on_later_claim,
        gap_reader(connection, topics.state),
        lambda: membership.lease_valid,
        runtime.seal,
        lambda: runtime.replica.spec.headers,
    )
    service = CheckpointService(
        runtime,
        fenced,
        rejections,
        topic_id,
        scan,
        f"{platform.node()}:{settings.instance or os.getpid()}",
    )
    table = state_table.attach(
        app,
        runtime.replica.model_arrays,
        fenced,
        assigned_with=topics.cuts,
        partitions_now=state_table.partition_counter(connection),
        acquire=service.acquire,
        release=service.release,
        fail=status.fail_from_thread,
    )
    membership.on_evicted = table.step_down
    return service
