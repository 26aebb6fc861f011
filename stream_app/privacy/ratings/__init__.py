"""Local mechanisms over rating levels, and the public choice of items and partitions."""
