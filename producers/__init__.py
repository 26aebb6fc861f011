"""The device: sanitizes a rating and sends only what was released."""
