"""Markov chains over the sets of items that may have been released as one noisy profile."""
