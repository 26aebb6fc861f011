"""Mutants of what an operator runs: workers, gateways, their log, state and checkpoints."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

OF_SERVERS = (
    Mutant(
        name="the clock writes cuts before it has read the log to its end",
        file="stream_app/log/cut_clock.py",
        old="if not (self.owned and self._read_to_end):",
        new="if not self.owned:",
        seen="a worker that takes the clock over writes cuts that every reader ignores",
        first=("tests/stream_app/log/test_cut_clock.py",),
    ),
    Mutant(
        name="an evicted device leaves its list to the next device of its row",
        file="stream_app/state/replica.py",
        old="self.pairs.release(self.marks.evict())",
        new="self.marks.evict()",
        seen="a new device gets lists made from the ratings of a stranger",
        first=("tests/stream_app/state/test_evicted_devices.py",),
    ),
    Mutant(
        name="a page is written over the one that the durable checkpoint names",
        file="stream_app/checkpoints/protocol/writer.py",
        old="slot = 1 if last == 0 else 0",
        new="slot = 0",
        seen="a crash while a checkpoint is written leaves no checkpoint at all",
        first=("tests/stream_app/checkpoints/protocol/test_writer.py",),
    ),
    Mutant(
        name="a cut that ends where the log ends counts as lost",
        file="stream_app/replay/lost_tail.py",
        old="return any(end > at for end, at in zip(cut.end_offsets, ends, strict=True))",
        new="return any(end >= at for end, at in zip(cut.end_offsets, ends, strict=True))",
        seen="after a loss the operator is told to give up a cut that is whole",
        first=(
            "tests/faults/test_broker_lost_end.py::"
            "test_a_lost_end_is_refused_by_all_and_taken_up_with_what_is_sent_again",
        ),
    ),
    Mutant(
        name="withdrawn items are listed",
        file="stream_app/serving/recommender.py",
        old="return ~seen & ~self.catalogue.withdrawn(items)",
        new="return ~seen",
        seen="an item that the operator has taken out of the catalogue is recommended",
        first=("tests/stream_app/serving/test_ranked_lists.py",),
    ),
    Mutant(
        name="the checkpoint of the cut that is kept counts as superseded",
        file="stream_app/operations/truncate.py",
        old="m.topic_id == rating_topic and to_cut < m.cut}",
        new="m.topic_id == rating_topic and to_cut <= m.cut}",
        seen="a truncation that supersedes nothing is carried out, and not refused",
        first=(
            "tests/faults/test_broker_lost_end.py::"
            "test_a_truncation_that_would_lose_nothing_or_keep_lost_records_is_refused",
        ),
    ),
    Mutant(
        name="a worker that has caught up is reported as behind since its start",
        file="stream_app/monitoring/gauges.py",
        old="        if not records:\n            self._caught_up_time = time.time()\n",
        new="",
        seen="the lag in seconds jumps to hours whenever one record waits, and an alert fires",
        first=("tests/stream_app/monitoring/test_gauges.py",),
    ),
    Mutant(
        name="the seal of a secret is the same in every deployment",
        file="stream_app/deployment.py",
        old="return Seal(secret, settings.topic_prefix)",
        new="return Seal(secret)",
        seen="records of a test deployment with the same secret are taken as one's own",
        first=("tests/stream_app/test_settings.py",),
    ),
    Mutant(
        name="after the first connection that was closed late none is closed any more",
        file="stream_app/web/connections.py",
        old="            self.close_oldest()\n        self._arm()\n",
        new="            self.close_oldest()\n",
        seen="clients that send nothing hold every connection of a server that ran for a while",
        first=("tests/stream_app/agents/test_web_server.py",),
    ),
    Mutant(
        name="a writer that was idle counts as stalled at its first record",
        file="stream_app/kafka/acknowledged_writer.py",
        old="            if self._unacknowledged == 0:\n"
        "                self._progressed = time.monotonic()\n",
        new="",
        seen="a command that wrote nothing for a minute ends at its next record",
        first=("tests/stream_app/agents/test_state_table.py",),
    ),
    Mutant(
        name="a broker whose port was taken meanwhile is not started again",
        file="stream_app/broker/local.py",
        old="            if not taken or port is not None or",
        new="            if taken or port is not None or",
        seen="murmurec demo fails now and then with an address in use",
        first=("tests/stream_app/broker/test_local.py",),
    ),
    # --- what only a running worker or gateway does ---------------------------------------------
    Mutant(
        name="a checkpoint is durable before the rejections of its records",
        file="stream_app/agents/checkpointing/checkpoint_thread.py",
        old="        self._rejections.wait(job.rejections, self._lease_unchanged)\n",
        new="",
        seen="after a crash some rejected records have no entry in the topic of rejections",
        first=("tests/stream_app/agents/test_checkpoints.py",),
    ),
    Mutant(
        name="cuts name no fingerprints of the records below them",
        file="stream_app/agents/log_reader.py",
        old="        if isinstance(entry, Cut):\n"
        "            entry = structs.replace("
        "entry, tails=rounds.tails_below(entry.end_offsets))\n",
        new="",
        seen="a broker that lost its end and was filled again goes unnoticed, and replicas differ",
        first=(
            "tests/faults/test_broker_lost_end.py::"
            "test_an_end_that_was_filled_again_is_refused_with_and_without_a_checkpoint",
        ),
    ),
    Mutant(
        name="queries beyond the first eight of a burst wait for the next query",
        file="stream_app/agents/queries/answers.py",
        old="        if self._waiting:\n"
        "            self._scheduled = True\n"
        "            self._loop.call_soon(self._answer)\n",
        new="",
        seen="under load most queries have no answer in time",
        first=(
            "tests/kafka/test_query.py::test_every_question_of_a_flood_has_an_answer_or_a_refusal_although_the_worker_was_frozen",
        ),
    ),
    Mutant(
        name="a worker is ready though a topic takes what expands to gigabytes",
        file="stream_app/agents/worker_status.py",
        old="        if self.intake_fault:\n            return self.intake_fault\n",
        new="",
        seen="/readyz is green while the operator ought to set the topic right",
        first=("tests/stream_app/agents/test_worker_status.py",),
    ),
    Mutant(
        name="other bytes under a number in use are confirmed as sent before",
        file="stream_app/gateway/event_writer.py",
        old="        if known is not None and known.digest != digest:\n"
        '            raise SeqReused((known.digest + known.tag).hex() if known.tag else "")\n',
        new="",
        seen="a device that lost its journal has its new reports confirmed, and none is written",
        first=("tests/kafka/test_gateway.py",),
    ),
    Mutant(
        name="a gateway is ready without the rights that it needs",
        file="stream_app/gateway/readiness.py",
        old="            missing = _lacking(gateway)\n",
        new="            missing = None\n",
        seen="a gateway takes reports and refuses each of them, while /readyz is green",
        first=("tests/stream_app/gateway/test_serving.py",),
    ),
    Mutant(
        name="a query that has ended still counts as under way",
        file="stream_app/gateway/asker.py",
        old="        finally:\n            del self._waiting[id]\n",
        new="",
        seen="after 256 queries a gateway refuses every further one as too many",
        first=("tests/kafka/test_gateway_asking.py",),
    ),
)
