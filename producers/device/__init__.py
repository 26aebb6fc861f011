"""What one device does: from a raw rating to a request for its journal."""
