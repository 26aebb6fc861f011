"""A party of a campaign: opens its boxes, sums its shares, adds its noise, publishes that alone."""
