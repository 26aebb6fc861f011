"""Mechanisms that release the set of a user's items as one noisy profile: BLIP and JLT."""
