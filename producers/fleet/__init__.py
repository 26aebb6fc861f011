"""A data set as a fleet of devices: replay, end of an epoch, campaigns."""
