"""Recommendations from similar users, found among released profiles."""
