"""Kernels of what shards exchange: beliefs about items, and tables of pairs."""
