"""What an account is due to report at a moment, as one request for the journal.

    presence protected   the cells of the scope whose turns came and that are left (`cells`)
    value protected      the ratings that were not reported yet

Of both no more than the person's budget holds. Ratings are looked up after the cells are chosen,
and of the cells alone: the work before a message is the same however much was rated.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from producers.daemon.cells import Cells
from producers.device.rated import Rated, ScaledRatings
from producers.device.requests import ReportSettings
from producers.fleet.epoch_requests import EmissionOptions, EpochRequests
from producers.journal import Enrolment, Journal, Request


@dataclass
class Reporting:
    """How the accounts report: `cells` is None where presence is public, and is replaced once a
    scope is known that a server names."""

    settings: ReportSettings
    cells: Cells | None = None


def due_request(
    account: Enrolment, journal: Journal, reporting: Reporting, ratings: ScaledRatings, epoch: int
) -> tuple[Request | None, bool]:
    """Return the request of an account, None where nothing is due or affordable, and whether the
    budget holds fewer reports than are due. May raise `Unreadable`."""
    cells, scope = reporting.cells, None
    if cells is not None:
        scope = cells.left(account.epoch, epoch, partial(journal.reports, account.device))
        if not len(scope):
            return None, False
    options = EmissionOptions(scope)
    if cells is not None and cells.sample is not None:
        options = EmissionOptions(scope, cells.sample, drawn_from=cells.scope)
    found = EpochRequests(ratings, reporting.settings, journal, epoch, options)
    rated = ratings.rated(account.device) if scope is None else Rated()
    left = found.unreported(account.device, rated)
    keys = found.affordable(account.device, left)
    held_back = len(keys) < len(left) and options.sample is None
    if not len(keys):
        return None, held_back
    if scope is not None:
        missing = reporting.settings.mechanism.inputs - 1
        raw_levels = ratings.levels(account.device, keys, missing)
        rated = Rated(keys, raw_levels.astype(np.uint8))
    return found.request(account.device, rated, keys)[0], held_back
