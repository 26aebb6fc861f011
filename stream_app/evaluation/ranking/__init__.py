"""Quality of lists on a data set whose true ratings are known.

    task        what is held out, who is ranked what            (`splits.py`, `task.py`)
    baselines   functions from a user to scores of all items    (`baselines.py`, `co_rated.py`)
    figures     nDCG, recall, hit rate, coverage, overlap       (`lists.py`, `results.py`)

A way to make lists may use of the learned part what its place allows: a server the reports, a
device its own history and what the server publishes, a baseline everybody's true ratings.
"""

from stream_app.evaluation.ranking import baselines
from stream_app.evaluation.ranking.co_rated import co_rated_lists
from stream_app.evaluation.ranking.lists import lists_of
from stream_app.evaluation.ranking.results import RankingResult, RankingRow, Way, row_of
from stream_app.evaluation.ranking.splits import SPLITS
from stream_app.evaluation.ranking.task import RankingTask, ranking_task

__all__ = [
    "SPLITS",
    "RankingResult",
    "RankingRow",
    "RankingTask",
    "Way",
    "baselines",
    "co_rated_lists",
    "lists_of",
    "ranking_task",
    "row_of",
]
