"""Exact arithmetic: integer tables, certificates, Gaussian bounds, unbiased estimates."""
