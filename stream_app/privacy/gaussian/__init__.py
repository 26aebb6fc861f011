"""Noisy sums of integer vectors: exact discrete Gaussian noise, and the cost of a campaign."""
