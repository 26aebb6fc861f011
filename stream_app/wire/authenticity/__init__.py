"""Proofs of origin: which records a holder of a secret made, whether a record is the one read
before, and whether a reply is to this query."""
