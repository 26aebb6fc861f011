"""What one batch did to the state: for whoever measures, indexes and tells of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_app.models.factorization.learner import UpdateResult
from stream_app.state.rating_columns import Silent


@dataclass(frozen=True, eq=False)
class Outcome:
    """What one batch did: per record (n,) the outcome, and the reason (an index into `REASONS`, 0
    for none) why it was set aside; gaps in `seq`, ratings that came again; per applied rating (m,)
    the columns, the prior that there is one, and the update; what was silent.
    """

    records: NDArray[np.uint8]
    reasons: NDArray[np.uint8]
    gaps: int
    duplicates: int
    users: NDArray[np.uint64]
    items: NDArray[np.uint64]
    reports: NDArray[np.uint8]
    channels: NDArray[np.uint16]
    priors: NDArray[np.float32]
    held: NDArray[np.bool_]
    rows: NDArray[np.int64]
    update: UpdateResult
    silent: Silent
