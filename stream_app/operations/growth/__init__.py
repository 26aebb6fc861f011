"""Newer event formats and newer states."""
