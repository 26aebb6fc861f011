"""The site's items: what is known of each, filters over them, and the files they come from."""
