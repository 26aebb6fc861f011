"""Metrics, logs, and the measurements of accuracy and leakage of a worker."""
