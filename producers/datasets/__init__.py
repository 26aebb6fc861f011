"""Data sets of ratings: file formats, columns, scale, and synthetic data."""
