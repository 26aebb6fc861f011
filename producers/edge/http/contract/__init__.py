"""The contract of an edge as data: bodies, endpoints, and what is made from them."""

JSON, NDJSON, CSV = "application/json", "application/x-ndjson", "text/csv"
HTML, TEXT = "text/html", "text/plain"
