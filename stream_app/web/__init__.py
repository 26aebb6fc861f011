"""What a web server needs that strangers reach: limits of connections, and the names it serves."""
