"""One person, one account: the budget of the whole person, and what was used of it.

enrolment   the terms of an account: budget, window, plan; simulated or withdrawn
account     what the journal knows of one device: numbers, reported keys, spends, its terms
reports     how many reports a budget holds
spending_so_far  what those on record cost the person if it ended now, by purpose
remaining_reports  the part of a budget for cells that are reported again
spending    which epsilon, on how many ratings, spends a budget best, and the RMSE to expect of it
"""
