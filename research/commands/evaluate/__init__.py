"""What `murmurec evaluate` measures of the papers' systems.

profiles     neighbours over profiles of items
trained      a trainer with a central guarantee
social       PrivSR, and social models without it
over_time    campaigns that are released again and again, beside running sums
"""
