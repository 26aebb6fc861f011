"""Learners that are evaluated beside those of a worker, and the table of both."""
