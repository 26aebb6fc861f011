"""The order of the log and what was done with each record: cuts, rounds, clock, ledger; no I/O, no
clock, no thread."""
