"""Matrix factorization that learns online from noisy reports; `factory.py` lists the learners."""
