"""The one thread that may use a journal or a publisher."""

from __future__ import annotations

import os
import threading


class Owner:
    """The process and thread that created it; `name` names the owned object in messages.

    A forked child shares the file and the queue of its parent but neither its lock nor
    librdkafka's threads, so that any use there must fail.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._process, self._thread = os.getpid(), threading.get_ident()

    def check(self) -> None:
        """Raise RuntimeError in another process or thread."""
        if os.getpid() != self._process:
            raise RuntimeError(
                f"{self._name}: opened before a fork; open it in the process that uses it"
            )
        if threading.get_ident() != self._thread:
            raise RuntimeError(f"{self._name}: belongs to another thread; use it in one")
