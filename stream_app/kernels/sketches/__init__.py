"""Sketches."""
