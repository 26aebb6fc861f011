"""The item side of a worker: derived and measured in a thread beside the learning."""
