"""Kernels of Bloom, count-min and AMS sketches."""
