"""A party at work: read the log to its end, answer what is owed, prepare, and wait for more.

One entry at a time: before the next answer the log is read to its end again, so an answer that
another process of the same party wrote meanwhile is seen. Killed anywhere, the next process begins
at the first step and answers the same. A broker that does not answer is asked again, and what is
owed waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stream_app.aggregation.collection import Record
from stream_app.aggregation.party import Answer, Party, Read
from stream_app.aggregation.round_topics import RoundLog, RoundTopic
from stream_app.campaigns.rounds import Phase, StageState
from stream_app.errors import Unanswered
from stream_app.kafka.topic_follower import Stopped
from stream_app.wire.campaigns.plan import Campaign
from stream_app.wire.campaigns.round_log import CHECK_BYTES, Checks, NoisyShare, Opened

_WAIT_SECONDS = 0.2

Report = Callable[[str], None]
ReadOn = Callable[[tuple[int, ...]], Iterable[Record]]
"""Gives some records from these offsets on, one for each partition, in the order of each."""


def turn(party: Party, log: RoundLog, read: Read) -> Answer | None:
    """Answer once, if the party owes an answer to the log as it stands; return the answer."""
    party.rounds = log.catch_up()
    answer = party.answer(read)
    if answer is not None:
        log.append(answer)
    return answer


def prepare(party: Party, log: RoundLog, read_on: ReadOn) -> bool:
    """Prepare some contributions of a stage that is open; return whether there were any.

    The log is read once more in between: what arrives after a stage was closed is none of it.
    """
    records = list(read_on(party.next_places))
    if not records:
        return False
    party.rounds = log.catch_up()
    party.prepare(records)
    return True


def serve(
    party: Party,
    log: RoundTopic,
    read: Read,
    read_on: ReadOn,
    stopping: Callable[[], bool],
    report: Report,
) -> None:
    """Answer until `stopping` returns True; `report` gets a sentence for each answer and result."""
    shown: StageState | None = None
    foreign, is_away = b"", False
    while not stopping():
        try:
            answer = turn(party, log, read)
            is_preparing = answer is None and prepare(party, log, read_on)
        except Stopped:
            return
        except Unanswered as reason:
            if not is_away:
                report(f"waiting for Kafka: {reason}")
            is_away = True
            continue
        if is_away:
            report("Kafka is back")
        is_away = False
        if answer is not None:
            report(_answered(party, answer))
            continue
        ended = _ended(log)
        if ended is not None and ended is not shown:
            report(_outcome(ended))
        shown = ended or shown
        plan = log.rounds.campaign
        if plan is not None and log.rounds.current is not None and foreign != plan.digest:
            foreign = plan.digest
            if party.keys.party(plan) is None:
                report(_not_named(party, plan))
        if not is_preparing:
            log.wait(_WAIT_SECONDS)


def _ended(log: RoundTopic) -> StageState | None:
    """Return the newest stage that has a result or will have none."""
    done = (Phase.RELEASED, Phase.ABORTED)
    return next((each for each in reversed(log.rounds.stages) if each.phase in done), None)


def _answered(party: Party, answer: Answer) -> str:
    collected = party.collected
    where = f"stage {answer.stage}"
    if isinstance(answer, Opened) and collected is not None:
        opened = int(collected.opened.sum())
        reasons = sorted(collected.dropped.items())
        rest = ", ".join(f"{count} {reason}" for reason, count in reasons) or "none"
        return f"{where}: opened {opened} of {answer.count} contributions; left out: {rest}"
    if isinstance(answer, Checks):
        count = len(answer.messages) // CHECK_BYTES
        return f"{where}: published its part of the proofs of {count} contributions"
    if isinstance(answer, NoisyShare):
        size = party.rounds.stages[answer.stage].stage.size
        return f"{where}: published a noisy share of {size} integers"
    return f"{where}: aborted ({getattr(answer, 'reason', '')})"


def _not_named(party: Party, plan: Campaign) -> str:
    """Return why a party owes a campaign no answer."""
    role, named = party.keys.role, " and ".join(f"{key[:16]}..." for key in plan.keys)
    return (
        f"campaign {plan.number}: is not answered here: it is of {len(plan.keys)} "
        f"{'party' if len(plan.keys) == 1 else 'parties'} with the keys {named}, and party "
        f"{role} has {party.keys.public.hex()[:16]}...; begin a campaign that names it, or "
        "start the party whose key is named"
    )


def _outcome(stage: StageState) -> str:
    if stage.phase is Phase.ABORTED:
        return f"stage {stage.index}: ended without a result ({stage.aborted})"
    rejected = f", {stage.rejected} rejected by their proofs" if stage.rejected else ""
    return f"stage {stage.index}: released, {stage.contributions} contributions{rejected}"
