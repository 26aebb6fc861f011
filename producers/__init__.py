"""The device: what sanitizes a rating and sends only what was released."""
