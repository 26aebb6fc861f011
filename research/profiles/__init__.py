"""Profiles that a device releases with noise, BLIP and JLT, and neighbours found among them.

profile_mechanism   the contract: a set of items in, bytes out, and estimates of the server
blip                a Bloom filter with flipped bits
jlt                 a projection with Gaussian noise
codebook            the public bits and signs of an item
noise_table         discrete Gaussian noise from integer counts
nearest_profiles    the most similar others of each profile
recall              the share of the true nearest that are found among released profiles

Source: Balu 2016, chapter 3.
"""
