"""Commands of the server: worker, state, topics, forget, broker and configuration."""
