"""Kernels of the indexes: exact scan, qoLSH, top-k selection."""
