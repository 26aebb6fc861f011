"""Codes of directions as bits: what every coder does with frames."""
