"""What goes together, as queries use it: items near to one, and the item behind an entry."""
