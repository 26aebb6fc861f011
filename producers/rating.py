"""One rating of one user, from the number that a person gives to the record that leaves.

Everything that can be wrong with it is found before the store is touched or a random word is drawn:
a refused rating costs no epsilon, no seq and leaves no trace.
"""

from __future__ import annotations

import numpy as np

from producers import device
from producers.pseudonyms import pseudonym
from producers.scale import Scale
from producers.store import Store
from stream_app import wire
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomness import RandomSource


def rate(
    user: int | str,
    item: wire.Item,
    raw_rating: object,
    *,
    scale: Scale,
    mechanism: Mechanism,
    store: Store,
    source: RandomSource,
    epoch: int,
    again: bool = False,
    allow_tests: bool = False,
) -> wire.Event:
    """Return the event of one rating, to be sent once; its (user, item) and seq are spent now.

    Raises ValueError for bad input with the store as it was, and `Refusal` for a rating that was
    published before, unless `again`.
    """
    check_levels_agree(scale, mechanism)
    raw_level = scale.level(raw_rating)
    device.check_source(source, allow_tests=allow_tests)
    key = wire.key(item)
    who = pseudonym(store.key, user)
    seq = store.claim(who, key, again=again)
    return device.event(
        np.array([raw_level], np.uint8),
        np.array([key], np.uint64),
        mechanism=mechanism,
        source=source,
        device=who,
        seq=seq,
        epoch=epoch,
        allow_tests=allow_tests,
    )


def check_levels_agree(scale: Scale, mechanism: Mechanism) -> None:
    """Raise ValueError where a mechanism has another number of levels than the scale."""
    if scale.levels != mechanism.levels:
        raise ValueError(
            f"mechanism {mechanism.id}: has {mechanism.levels} levels, but the scale {scale} has "
            f"{scale.levels}; use {mechanism.family}:{scale.levels}:..."
        )
