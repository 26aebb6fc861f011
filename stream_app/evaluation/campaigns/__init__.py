"""Accuracy of campaigns, where the true ratings are known: whole populations in one process.

    noisy_sum   contributions and noise of one stage, as the aggregators would publish them
    lists       lists that devices make after *together*

Everything between a device and the public sum is as it is live: integers within their bound, exact
discrete Gaussian noise, a full share of it from each party. The noise comes from a seed, so that a
figure can be repeated.
"""

from stream_app.evaluation.campaigns.campaign_lists import (
    DELTA,
    LARGEST_SCOPE,
    MODES,
    Budget,
    CampaignLists,
    ListOptions,
    evaluate_lists,
    noisy_sum,
)
