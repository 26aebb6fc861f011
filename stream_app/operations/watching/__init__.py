"""What an operator sees of a running deployment: faults by part, and numbers each second."""
