"""Commands of a device: sanitize ratings and profiles, publish them, show the spent budget."""
