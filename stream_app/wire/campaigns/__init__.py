"""Campaigns on the wire: the public plan, the log of its stages, and what devices contribute."""
