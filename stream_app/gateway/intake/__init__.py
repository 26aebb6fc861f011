"""POST /reports: from a body to a confirmed record of the rating topic."""
