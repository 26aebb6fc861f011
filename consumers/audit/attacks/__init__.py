"""Attacks on whole people: linking and rebuilding of what they rated."""
