"""A deployment of many shards that nobody has run: arithmetic from what two cores measured, and a
simulation that checks it."""
