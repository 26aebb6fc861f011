"""The outside observer of campaigns: the log of rounds, and the contributions that it names.

    entries of the log -> stated.py -> checks.py -> findings

It has no key: it sees who contributed, which records count, what each party published. What a box
holds, and whether a party's noise is of its own, it cannot see; `murmurec audit campaign` attacks
the code for that.
"""
