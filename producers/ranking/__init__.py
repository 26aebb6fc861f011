"""Ranking on the device: lists from its own clean history and the published item side."""
