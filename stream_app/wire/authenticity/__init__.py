"""Proofs of origin: which records a holder of a secret made."""
