"""The public scope of a running device: a pinned file, or the server's catalogue.

file        read and compared with the journal's pin at the start
catalogue   as it was stored beside the journal; read from the broker once that answers, so that
            a program starts without one, and compared: another list only by its digest
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from producers.daemon.cells import Cells
from producers.daemon.due_requests import Reporting
from producers.device.pinned_scope import (
    CatalogueScope,
    check_accepted,
    check_pin,
    digest_of,
    pin,
    read_scope,
)
from producers.journal import Journal
from stream_app.cli.catalogue_titles import recommendable
from stream_app.cli.device.mechanism_options import hides_presence
from stream_app.cli.device.running.budgets import check_budgets
from stream_app.cli.options import connection_from
from stream_app.cli.output import notice, plural
from stream_app.privacy.mechanism import Mechanism
from stream_app.settings import Settings

if TYPE_CHECKING:
    from stream_app.cli.device.running import RunOptions

_UNKNOWN = np.zeros(0, np.uint64)


def cells_of(
    options: RunOptions, settings: Settings, mechanism: Mechanism, journal: Journal, epoch: int
) -> Cells | None:
    """Return the cells of the public scope; None where presence is public, and none of them
    while the server's catalogue is not known."""
    if not hides_presence(mechanism):
        return None
    most = None
    if options.scope is not None:
        items, digest = read_scope(options.scope, options.most_cells)
        check_pin(journal, options.scope, digest, options.accept_scope)
        # Before it is stored: a shorter list in place of one that is refused here is no change.
        check_budgets(journal, mechanism, items, epoch)
        if pin(journal, options.scope, digest, options.accept_scope):
            notice(f"scope      {options.scope} has the SHA-256 {digest.hex()}, from now on")
    else:
        check_accepted(options.accept_scope)
        known = CatalogueScope(journal, options.accept_scope).stored()
        items = _UNKNOWN if known is None else known
        most = options.most_cells
    return Cells(items, options.rotate_every, settings.hash_seed, most, options.rounds)


class ServersCatalogue:
    """Makes the server's catalogue the cells of a device; `compare` needs a broker."""

    def __init__(self, options: RunOptions, settings: Settings, journal: Journal) -> None:
        self._scope = CatalogueScope(journal, options.accept_scope)
        self._accepted = (options.accept_scope or "").lower()
        self._settings = settings
        self._compared = not options.trust_catalogue

    def compare(self, reporting: Reporting) -> None:
        """Read the catalogue once, and report on it where the device has no list, or where its
        digest is accepted.

        `ScopeChanged` where the list of the device is lost and the catalogue is another one.
        """
        if self._compared or reporting.cells is None:
            return
        items = recommendable(connection_from(self._settings), self._settings.topic_prefix)
        digest, known = digest_of(items), self._scope.stored()
        if known is None or self._accepted == digest:
            if self._scope.take(items):
                notice(
                    f"scope      the server's catalogue of {plural(len(items), 'item')}, SHA-256 "
                    f"{digest}, from now on"
                )
            reporting.cells = replace(reporting.cells, scope=items)
        elif digest != digest_of(known):
            notice(
                f"scope      the server's catalogue changed since this device took "
                f"{plural(len(known), 'item')} of it, which remain its scope; to report on the "
                f"{plural(len(items), 'item')} of now too, give --accept-scope {digest}"
            )
        self._compared = True
