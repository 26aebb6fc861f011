"""Learners, statistics and indexes: state with learn, predict, add, estimate; no I/O."""
