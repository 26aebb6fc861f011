"""Ranking on the device, from a public item side and the user's own clean history.

ranker             scores and lists of the item side of released reports, for any history
campaign_ranker    the same of the side of a campaign
local_recommender  the library call: the newest table, items with titles, and the reasons
published, kinds   a public table from its topic or from the cache, and which one is taken
clean_history      the file of clean ratings beside the journal
rated_file         a file of ratings that the user gives
"""

from producers.ranking.clean_history import CleanHistory, RatedItem, visit_of
from producers.ranking.kinds import campaign_side
from producers.ranking.local_recommender import CampaignTerms, LocalList, LocalRecommender
from producers.ranking.rated_file import rated_in
