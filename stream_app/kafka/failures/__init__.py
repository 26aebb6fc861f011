"""What the errors of a broker and of a log mean."""
