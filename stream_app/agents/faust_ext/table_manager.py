"""Faust's table manager, which goes through every rebalance, corrected in two places.

    assigned -> ask how far the changelogs are -> read what is missing -> resume the streams

At the start Faust waits a second for modules that are still being imported to declare their tables.
Here every table is attached before the application starts; the second would be most of a restart.

Each step may take `broker_request_timeout`. A step that takes longer (the broker is away) counts as
the end of the service (`mode.Service.wait_first` returns the same for both): nothing is logged, no
rebalance is followed and no query is answered any more. An error of the client ends
the service, too. Here the steps begin again until the broker is back.
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
    """Begins again what took too long or failed."""

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
        """What goes through the steps after a rebalance."""
        if self._recovery is None:
            self._recovery = PatientRecovery(self.app, self, beacon=self.beacon, loop=self.loop)
        return self._recovery

    async def on_start(self) -> None:
        """Register the tables and begin with the recovery."""
        if not self.should_stop:
            await self._update_channels()
            await self.recovery.start()
