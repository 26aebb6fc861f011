"""GET /recommendations/{user} and GET /similar: asked of the workers over Kafka."""
