"""Campaigns: a person's taste as bounded integer vectors, of which only noisy sums are public."""
