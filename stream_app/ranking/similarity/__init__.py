"""Lists by how items go together: Slope One and cosine, plain and damped."""

SLOPE_ONE, COSINE = "slope-one", "cosine"
METHODS = (SLOPE_ONE, COSINE)
