"""Errors of a learner on a data set whose true ratings are known.

    prequential    every rating in time order is predicted, then learned; the error is over all
    one-pass       a random 80 / 10 / 10 split by a seed: learn the first part once in random
                   order, predict the last; the middle part is left for tuning
    scope          one-pass where presence is protected: every user sends every cell of a public
                   scope of items once, rated in the first part or not; the last part is predicted;
                   where likes are reported, every cell is predicted, then learned

The learner sees reports only. RMSE and MAE compare clipped predictions with the TRUE ratings, in
the data's own units. The baseline predicts each item's mean of true ratings, a little shrunken. A
learner with a larger error than this baseline is useless. Of likes the log-loss of the true bit is
reported, beside that of the items' shares of likes.
"""

from stream_app.evaluation.devices import AdaptiveDevices, Devices, FixedReports
from stream_app.evaluation.rating_errors import PROTOCOLS, evaluate
from stream_app.evaluation.results import (
    EvaluationData,
    EvaluationResult,
    TrueRatings,
    item_means,
    running_item_means,
    split,
)
from stream_app.evaluation.scope_errors import ScopeDevices, evaluate_scope, most_rated_items
