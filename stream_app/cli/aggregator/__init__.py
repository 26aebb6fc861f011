"""Commands of the parties that sum what devices contribute, and of the campaigns they serve."""
