"""Mechanisms as frozen values: what they release, their exact channel, what epsilon protects."""
