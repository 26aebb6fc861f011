"""Commands of a reader of recommendations."""
