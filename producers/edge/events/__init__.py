"""Plain events of a site: decoded, idempotent, durable before the answer."""
