"""Readers of the streams: query clients, dashboards and the adversary."""
