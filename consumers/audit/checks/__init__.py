"""Checks: columns of records in, findings out."""
