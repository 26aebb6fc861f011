"""Ranking on the device, from the public item side and the user's own clean history.

ranker             scores and lists of one item side for any history
local_recommender  the library call: the newest table, items with titles, and the reasons
table, table_cache the item side from its topic or from the cache
clean_history      the file of clean ratings beside the journal
rated_file         a file of ratings that the user gives
"""

from producers.ranking.clean_history import CleanHistory, RatedItem
from producers.ranking.local_recommender import LocalItem, LocalList, LocalRecommender
from producers.ranking.ranker import Ranked, Ranker
from producers.ranking.rated_file import rated_in
from producers.ranking.table import PublicTable

__all__ = [
    "CleanHistory",
    "LocalItem",
    "LocalList",
    "LocalRecommender",
    "PublicTable",
    "Ranked",
    "Ranker",
    "RatedItem",
    "rated_in",
]
