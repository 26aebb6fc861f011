"""Noise on the scores of a list (Park and Acharya 2011, section 3): as printed, and corrected.

    printed   Laplace noise on every score, with the sensitivities of the paper: NO guarantee
    damped    damped scores of bounded influence, of which only an ordered list is released

The paper's claims fail on the examples of `tests/claims/test_park_2011.py`. For serving, noise once
(`research/similarity/noised_sums.py`) costs nothing for each list.
"""
