"""Checkpoints of a running worker: lease, writing, comparison of digests, replacement."""
