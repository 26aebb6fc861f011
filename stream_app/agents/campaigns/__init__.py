"""Campaigns at the worker that owns the clock: their stages, and what reaches the cut log."""
