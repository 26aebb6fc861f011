"""Scores by which a device ranks the items of a campaign: links from noisy sums, and a prior."""
