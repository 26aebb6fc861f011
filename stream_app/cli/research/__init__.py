"""Commands that measure and prove, without Kafka."""
