"""Slope One and cosine between items, plain and damped, and what one person can change in them.

table        the sums over the users who rated both of two items, from a whole file
slope_one    predicted stars, and cosine: scores and similarities, with their bounded influence
noised_sums  the table of bounded sums that are noised once, for a whole population
"""
