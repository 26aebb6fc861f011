"""What an account has done, as levels of the site's scale: looked up when it reports.

    level = floor((stars - 1) / 4 * (levels - 1))          stars of an item: `lists.history`

The floor: parts of a like never make an item better than what they add up to. Items that were only
seen have no level, and are not reported.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from producers.device.rated import Rated
from producers.edge.lists.stored_history import history
from producers.edge.store.store_tables import accounts
from producers.identities import Identities
from producers.scale import Scale

_ROUNDING = 1e-9  # stars of a level are computed in floating point


class StoredRatings:
    """The ratings in a store, within one transaction; a `producers.device.rated.ScaledRatings`.

    `identities`: told the user of each account that is looked up, where devices sign.
    """

    def __init__(self, connection: Connection, scale: Scale, identities: Identities) -> None:
        self._connection, self.scale, self.identities = connection, scale, identities

    def rated(self, device_id: bytes) -> Rated:
        """Return what the user of a device has done; nothing for one that was removed.

        Until the transaction ends, the account is not removed: what is released of it now comes
        before its deletion.
        """
        wanted = (
            select(accounts.c.number, accounts.c.user)
            .where(accounts.c.device == device_id, accounts.c.removed.is_(None))
            .with_for_update(read=True, key_share=True)
        )
        account = self._connection.execute(wanted).one_or_none()
        if account is None:
            return Rated()
        if self.identities.signed:
            self.identities.pseudonym(account.user)
        rated = [row for row in history(self._connection, account.number) if row.stars is not None]
        keys = np.array([row.key for row in rated], np.uint64)
        raw_stars = np.array([row.stars for row in rated], np.float64)
        raw_levels = levels_of(raw_stars, self.scale)
        order = np.argsort(keys, kind="stable")
        return Rated(keys[order], raw_levels[order])


def levels_of(raw_stars: NDArray[np.float64], scale: Scale) -> NDArray[np.uint8]:
    """Return the level (n,) uint8 of stars (n,) on 1 .. 5, rounded down.

    >>> levels_of(np.array([1.0, 3.6, 4.999, 5.0]), Scale(1, 5, 1)).tolist()
    [0, 2, 3, 4]
    """
    places = np.floor((raw_stars - 1) / 4 * (scale.levels - 1) + _ROUNDING)
    return np.clip(places, 0, scale.levels - 1).astype(np.uint8)
