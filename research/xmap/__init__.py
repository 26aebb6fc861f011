"""X-Map (Guerraoui et al. 2017) on ratings of two domains, for users who rated in one of them.

task       two domains, and cold users of the target domain
methods    item means, popularity, the user's offset, factorization of both domains
alter_ego  links, a profile in another domain, and its predictions
x_map      X-Map clean, and corrected at an epsilon
measured   all of them side by side
"""
