"""The checkpoint protocol under simulated crashes: the real `Writer` and `Recovery`, and around
them a broker, processes and faults that a seed decides."""
