"""Choosing items by scores that are themselves private: what is released is ids, no score."""
