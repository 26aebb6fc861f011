"""Quality of lists on a data set whose true ratings are known.

    task        what is held out, who is ranked what, lists from scores     (`task.py`)
    baselines   functions from a user to scores of all items                (`baselines.py`)
    figures     nDCG with its interval, recall, coverage   (`ranking_results.py`, `list_quality.py`)

A way to make lists may use of the learned part what its place allows: a server the reports, a
device its own history and what the server publishes, a baseline everybody's true ratings.
"""

from stream_app.evaluation.devices import FORMS, messages_of
from stream_app.evaluation.ranking import baselines
from stream_app.evaluation.ranking.ranking_results import (
    Mean,
    RankingResult,
    RankingRow,
    Way,
    difference,
    gains_by_key,
    row_of,
    user_gains,
)
from stream_app.evaluation.ranking.task import NothingToTest, RankingTask, lists_of, ranking_task
