"""Compiled loops: arrays in, arrays out; no I/O, clock, random numbers or objects.

Every kernel is `cache=True, nogil=True`, never `fastmath` (the same log must give the same bytes
on every machine) and calls no libm function whose last bit may differ between machines.
"""
