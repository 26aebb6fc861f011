"""Publishing how items go together, noised once: what an operator's release needs.

lists       what each device contributes, from a replica, and what forbids a release
debits      the log of releases: what each cost, and which of them count
pending     a table that was drawn and is not yet in its topic
publishing  the steps of a release, in the order that survives a crash
showing     what is published, and what is spent
"""
