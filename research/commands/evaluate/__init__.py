"""What `murmurec evaluate` measures of the papers' systems.

trained      a trainer with a central guarantee
social       PrivSR, and social models without it
"""
