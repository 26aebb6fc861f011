"""Counting which items occur together on devices."""
