"""Private lists: the log of what they cost, read by every worker, and the lists themselves."""
