"""Queries over Kafka: read in a thread, answered on the event loop."""
