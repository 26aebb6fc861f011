"""Decoding of reports: the posterior of a rating through the exact channel."""
