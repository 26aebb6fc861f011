"""Compiled loops of the papers' systems: trainers, decoders of profiles, codes of directions."""
