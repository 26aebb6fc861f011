"""Neighborhood."""
