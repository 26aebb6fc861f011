"""Proofs of origin: which records a holder of a secret made, and whether a record is the one read
before."""
