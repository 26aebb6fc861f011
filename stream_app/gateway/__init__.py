"""HTTP in front of Kafka, for devices without a Kafka client: browsers, phones, scripts.

It holds no learner and no state of the stream: what it accepts is written to the rating topic, and
what it serves is read from public topics or asked of a worker.
"""
