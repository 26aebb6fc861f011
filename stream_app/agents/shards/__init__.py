"""A worker of several shards: a member of a group, with a process for each shard it is given."""
