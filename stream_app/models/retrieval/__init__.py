"""The best items for a user: an index over item vectors and biases, exact or by qoLSH codes.

    score(row) = bias[row] + q[row] . p

The user's own bias and the mean move all items alike and stay out of the order.
"""
