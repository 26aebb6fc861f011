"""What makes a list: what goes together, recency, popularity; numpy alone, so that a device can
rank by itself."""
