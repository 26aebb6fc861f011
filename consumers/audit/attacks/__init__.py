"""Attacks on whole people: linking and rebuilding of profiles."""
