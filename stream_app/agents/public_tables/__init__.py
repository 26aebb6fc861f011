"""Publishing what is public and derived: the item table and the item side."""
