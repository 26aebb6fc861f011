"""`murmurec demo --mode split|central`: one campaign of a population, from its plan to lists.

run       set up, contribute, sum, learn, rank on the devices, check
parties   the aggregators as processes of their own, with fresh keys
conduct   every stage from its opening to its released sum, with its times and its noise
judge     what is held out, and the quality of the devices' lists
"""
