"""Answers to queries: the recommender, the public catalogue and the public item table."""
