"""Sketches of fixed size: Bloom filter of rated pairs, count-min of items, AMS second moment."""
