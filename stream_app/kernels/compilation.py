"""Counting the kernels that numba compiles; loads from its cache are not counted."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from numba.core import event


class CompilationCount(event.Listener):
    """A context in which compilations are counted, in all threads; loads from the cache are not.

    `kernels` is the number of kernels whose compilation has begun; `on_first` is called with the
    first of them, in the thread that compiles.
    """

    def __init__(self, on_first: Callable[[], None] = lambda: None) -> None:
        self.kernels = 0
        self._on_first = on_first

    def on_start(self, _: event.Event) -> None:
        """Count the kernel."""
        self.kernels += 1
        if self.kernels == 1:
            self._on_first()

    def on_end(self, _: event.Event) -> None:
        """Ignore the end of a compilation."""

    def __enter__(self) -> CompilationCount:
        event.register("numba:compile", self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        event.unregister("numba:compile", self)
