"""What `murmurec evaluate` measures of the papers' systems.

profiles     neighbours over profiles of items
trained      a trainer with a central guarantee
social       PrivSR, and social models without it
"""
