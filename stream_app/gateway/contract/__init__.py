"""What a gateway and the topics take and give, as documents made from the types of the code.

    bodies     the JSON values of a gateway's replies
    reasons    the reason codes of its refusals, with a sentence each

Neither aiohttp nor a Kafka client is imported here but by the view: `gateway --schemas` writes the
documents on every install.
"""
