"""Which items occur together on devices: the head, the devices' lists, and second moments."""
