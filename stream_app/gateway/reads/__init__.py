"""What a gateway shows to all clients alike: catalogue, mechanisms, item side, and the stream.

mechanisms    GET /mechanisms: the tables that a device samples from
following     a compacted topic, read on from where the last look ended
tables        GET /catalogue and /item-links: both followed in a thread
catalogue     the entries in the order in which they are served, within bounds
demo facts    GET /demo: what only a demo knows
statistics    a worker's public numbers, from its /metrics and /readyz
broadcast     one reader of these numbers for all listeners
stream        GET /stream: the numbers as server-sent events

None of them has a parameter: what a client asks for shows nothing of its user.
"""
