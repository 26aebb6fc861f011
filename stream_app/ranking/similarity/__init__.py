"""Lists by how items go together: Slope One and cosine, plain and damped.

table      sums over the devices that rated both of two items: all that the others take
slope_one  predicted stars, and cosine: scores and similarities, with their bounded influence
nearest    the k best by a score, with ties that every worker breaks alike; near items; reasons
"""

SLOPE_ONE, COSINE = "slope-one", "cosine"
METHODS = (SLOPE_ONE, COSINE)
