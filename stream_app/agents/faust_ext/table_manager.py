"""Faust's table manager, which handles every rebalance, corrected in two places.

    assigned -> read the end offsets of the changelogs -> read missing records -> resume the streams

At the start Faust waits a second for modules that are still being imported to declare their tables.
A worker attaches every table before the application starts, and the second would be most of its
restart, so this manager does not wait.

Each step may take `broker_request_timeout`. In Faust, a step that takes longer (the broker is
unreachable) ends the service without a log line, as `mode.Service.wait_first` returns the same for
a timeout and for an end; so does an error of the client. After that no rebalance is followed and no
query is answered. This manager repeats the steps until the broker answers.
"""

from __future__ import annotations

from typing import Any

import structlog
from aiokafka.errors import KafkaError
from faust.tables import TableManager
from faust.tables.recovery import RebalanceAgain, Recovery, ServiceStopped

log = structlog.get_logger()
_PAUSE_SECONDS = 0.5


class PatientRecovery(Recovery):
    """Repeats the steps after a timeout or an error of the client."""

    async def _wait(self, coro: Any, timeout: Any = None) -> None:
        try:
            await super()._wait(coro, timeout)
            return
        except ServiceStopped:
            if self.should_stop:
                raise
            reason = f"no answer within {timeout} s"
        except KafkaError as error:
            reason = repr(error)
        log.warning("rebalance.begins_again", reason=reason)
        await self.sleep(_PAUSE_SECONDS)
        self.signal_recovery_start.set()
        raise RebalanceAgain


class PatientTableManager(TableManager):
    """The service of tables; given to `faust.App` as `TableManager`."""

    @property
    def recovery(self) -> Recovery:
        """The service that runs the steps after a rebalance."""
        if self._recovery is None:
            self._recovery = PatientRecovery(self.app, self, beacon=self.beacon, loop=self.loop)
        return self._recovery

    async def on_start(self) -> None:
        """Register the tables and start the recovery."""
        if not self.should_stop:
            await self._update_channels()
            await self.recovery.start()
