"""Faust ext."""
