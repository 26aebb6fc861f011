"""Errors of Kafka that pass by themselves, and requests that wait for their end.

    a broker restarts, a leader or coordinator moves     ask again, until a deadline
    no right, no such topic, a damaged record            an error at once

`KafkaError.retriable()` is not enough: librdkafka sets it for transactions alone, and not for a
connection that broke, an election or a time-out. So those are named here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException

from stream_app.errors import Unanswered, UserError
from stream_app.wire.topics import lacking

_PAUSE_SECONDS = 0.05
# A request with no time left would not be sent at all.
_LEAST_SECONDS = 0.05
CODES = frozenset(
    {
        # No broker, or none that answers in time.
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._DESTROY_BROKER,
        KafkaError._RESOLVE,  # the name of a broker that is moved
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.BROKER_NOT_AVAILABLE,
        # A leader that is being elected, or that does not know yet what it holds.
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,  # its disk failed: another one is elected
        KafkaError.NOT_CONTROLLER,
        # The coordinator of a group.
        KafkaError._WAIT_COORD,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
    }
)

_DENIED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)

_Answer = TypeVar("_Answer")


def passes(error: KafkaError) -> bool:
    """Return whether an error ends without anybody doing anything about it."""
    return error.code() in CODES or error.retriable()


def is_denied(error: KafkaError) -> bool:
    """Return whether the user lacks a right."""
    return error.code() in _DENIED


def refusal(error: KafkaError, what: str, operation: str, otherwise: str) -> str:
    """Return the sentence for an error: the right that is missing, or the one given."""
    return lacking(what, operation) if is_denied(error) else otherwise


def unwritten(error: KafkaError, topic: str, record: str) -> UserError:
    """Return why the broker refused a record for good, with the fix."""
    fix = "check that the topic exists, with the default of max.message.bytes"
    if error.code() == KafkaError.INVALID_TIMESTAMP:
        fix = "the clock of this machine is far from the broker's: set it"
    fault = f"{topic}: {record} could not be written ({error.str()}); {fix}"
    return UserError(refusal(error, f"topic {topic}", "WRITE", fault))


def result(asked: Future[Any], seconds: float, what: str, lacks: str, *allowed: int) -> Any:
    """Return what Kafka gave an administrator, None for an `allowed` error; raises UserError with
    the sentence `lacks` for a missing right."""
    try:
        return asked.result(timeout=seconds)
    except TimeoutError:
        late = f"{what}: Kafka did not answer within {seconds:.0f} s; try again"
        raise UserError(late) from None
    except KafkaException as error:
        reason: KafkaError = error.args[0]
    if reason.code() in allowed:
        return None
    raise UserError(lacks if is_denied(reason) else f"{what}: Kafka refused: {reason.str()}")


def answered(
    request: Callable[[float], _Answer], seconds: float, what: str, also: Collection[int] = ()
) -> _Answer:
    """Return the answer to a request, which is made again after an error that passes, or one of the
    codes `also`, until `seconds` are over; it receives the seconds that are left.

    Raises at the deadline `Unanswered`, whose sentence begins with `what`, or the KafkaException of
    a code `also`; and at once that of any other error, which does not pass.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            return request(max(_LEAST_SECONDS, deadline - time.monotonic()))
        except TimeoutError:
            reason, is_away = "", True
        except KafkaException as error:
            found: KafkaError = error.args[0]
            reason, is_away = f" ({found.str()})", passes(found)
            late = time.monotonic() >= deadline
            if not is_away and (late or found.code() not in also):
                raise
        if is_away and time.monotonic() >= deadline:
            raise Unanswered(
                f"{what}: the broker did not answer within {seconds:g} s{reason}; try again"
            )
        time.sleep(_PAUSE_SECONDS)
