"""Readers of the streams: those who ask, those who watch, and the adversary."""
