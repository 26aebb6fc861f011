"""Readers of the streams: query clients, a client of an edge, dashboards and the adversary."""
