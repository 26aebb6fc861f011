"""What shards exchange: the state of it, the changes of one shard, and merging those of all."""
