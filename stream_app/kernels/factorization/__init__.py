"""Kernels of the matrix factorization: layouts of the vectors, updates, training loops."""
