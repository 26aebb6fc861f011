"""Canonical order of the log, clock of the cuts, and ledger of outcomes; no I/O, system time or
thread."""
