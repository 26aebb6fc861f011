"""PrivSR (Meng et al. 2018): social recommendation with sensitive and other ratings.

social_factorization    the model; plain, social, and with noise of the reader's choice
printed_shares          its noise as printed, labelled `paper`: no guarantee
private_rounds          corrected: secure sums with shared noise, a budget for each rating
measured                errors of all of them on one split
"""

from research.privsr.measured import (
    MODELS,
    SocialOptions,
    SocialResult,
    evaluate_social,
)
from research.privsr.printed_shares import PrintedShares
from research.privsr.private_rounds import Budget, PrivateRounds, Rounds, SecureSum
from research.privsr.social_factorization import (
    SocialFactors,
    SocialParameters,
    SocialRatings,
    social_factorization,
)

__all__ = [
    "MODELS",
    "Budget",
    "PrintedShares",
    "PrivateRounds",
    "Rounds",
    "SecureSum",
    "SocialFactors",
    "SocialOptions",
    "SocialParameters",
    "SocialRatings",
    "SocialResult",
    "evaluate_social",
    "social_factorization",
]
