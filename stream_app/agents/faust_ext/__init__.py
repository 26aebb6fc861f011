"""Faust extended: static membership, the state as a table, recovery that waits for a broker."""
