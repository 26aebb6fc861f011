"""Privacy accounting: tight bounds for a whole person.

`budget_plans` has what a budget of a whole person holds, in loss distributions that are built from
the tables that devices sample from. The accounts are on the device (`producers.person`).
"""
