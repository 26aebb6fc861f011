"""Privacy accounting: exact sums per adjacency, and tight bounds for a whole person.

`PrivacyLoss` adds claims; `ledger.PersonLedger` holds the budget of one person, in loss
distributions that are built from the tables that devices sample from.
"""

from stream_app.privacy.accounting.basic_composition import PrivacyLoss

__all__ = ["PrivacyLoss"]
