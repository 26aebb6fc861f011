"""The forms of Slope One and cosine that are measured and not served, and what one person can
change in them."""
