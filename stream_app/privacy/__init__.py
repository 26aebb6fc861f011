"""Mechanisms as frozen values: what they release, the exact channel, and what their epsilon protects."""
