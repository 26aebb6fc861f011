"""A process that publishes a table of similarities and is killed at a step of it.

    python -m tests.kafka.similarity_publisher LABEL [DONE]

LABEL: the step at which it kills itself, as the progress display names it, with DONE after so many
parts of it. Settings come from the environment.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

from stream_app.cli.catalogue_titles import catalogue_from
from stream_app.operations.session import Progress, Session
from stream_app.operations.similarities.publication import publish
from stream_app.settings import load

EPSILON, DELTA = Fraction(8), Fraction(1, 10**6)


def main(label: str, done: int) -> None:
    @contextmanager
    def display(step: str) -> Iterator[Progress]:
        def progress(parts: int, _: int) -> None:
            if step == label and parts == done:
                os.kill(os.getpid(), signal.SIGKILL)

        yield progress

    session = Session.from_settings(load(), display=display)
    entries = catalogue_from(session.connection, session.settings.topic_prefix).entries
    publish(session, entries, EPSILON, DELTA)


if __name__ == "__main__":
    main(sys.argv[1], int((*sys.argv, "0")[2]))
