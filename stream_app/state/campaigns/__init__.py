"""Campaigns in the replicated state: which entries count, and what was learned."""
