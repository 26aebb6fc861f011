"""Commands of a device: sanitize ratings, publish them, show the spent budget."""
