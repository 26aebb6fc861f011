"""Profiles of devices: read in a thread, and the lists that similar devices make.

reading    records of the topic -> the newest profile of each device, and a count of each outcome
lists      the answer to a query for what similar devices have
service    both, attached to a worker
"""
