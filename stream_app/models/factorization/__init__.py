"""Factorization."""
