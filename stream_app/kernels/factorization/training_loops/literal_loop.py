"""The loop over a sketch with one address per (entity, component, row)."""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import njit

from stream_app.kernels.factorization.bias_table import claim_both, slot_of
from stream_app.kernels.factorization.count_sketch_literal import place as place_literal
from stream_app.kernels.factorization.count_sketch_literal import read as read_literal
from stream_app.kernels.factorization.count_sketch_literal import write as write_literal
from stream_app.kernels.factorization.kalman_update import (
    MEAN,
    MEAN_VARIANCE,
    channel_of,
    predict,
    read_exactly,
    step_both,
    step_mean,
    vector_steps,
    within,
)
from stream_app.kernels.factorization.posterior import START, update_posterior
from stream_app.kernels.machine.dirty_pages import FLOATS, touch_triple
from stream_app.kernels.machine.scalars import hash64
from stream_app.kernels.machine.simd import load, store


@cache
def literal_loop(D, K):
    """Return the loop over a sketch with one address per (entity, component, row)."""

    @njit(cache=True, nogil=True, error_model="numpy")
    def learn_literal(
        C, tags, scalars, overall, C_pages, tags_pages, scalars_pages, salts, k, likelihood, facts,
        table, users, items, reports, channels, learn, priors, predicted, error, refused,
        probability,
    ):  # fmt: skip
        w = np.uint64(C.size // K)
        mean, mean_variance = overall[MEAN], overall[MEAN_VARIANCE]
        channel, alphabet, exact, apart = np.int64(-1), np.int64(0), False, 0.0
        learned = False
        a, b = np.empty(D, np.float32), np.empty(D, np.float32)
        at_u, at_i = np.empty((K, D), np.int64), np.empty((K, D), np.int64)
        signs_u, signs_i = np.empty((K, D), np.float32), np.empty((K, D), np.float32)
        for n in range(users.size):
            hu = hash64(users[n] + salts[0])
            hi = hash64(items[n] + salts[1])
            su = slot_of(tags, hu)
            si = slot_of(tags, hi)
            place_literal(hu, D, K, w, at_u, signs_u)
            place_literal(hi, D, K, w, at_i, signs_i)
            read_literal(C, D, K, at_u, signs_u, a)
            read_literal(C, D, K, at_i, signs_i, b)
            p = load(a, 0, D)
            q = load(b, 0, D)
            rhat, T, pp, qq, vu, vi = predict(mean, scalars, su, scalars, si, p, q, k, D)
            c = np.int64(channels[n])
            z = reports[n]
            if c != channel:
                channel = c
                alphabet, exact, apart = channel_of(facts, c)
            e, rho, rated = 0.0, 1.0, 1.0
            rejected = z >= alphabet
            if not rejected:
                if exact:
                    e = read_exactly(rhat, z, apart)
                else:
                    V = k.prior_variance + k.prior_slope * T
                    row = facts[c, START] + z
                    if likelihood[row, 0] > 0.0:
                        rated = np.float64(priors[n])
                    e, rho, probability[n] = update_posterior(
                        rhat, V, row, likelihood, table, facts, c, priors, n
                    )
                rejected = e * e > k.clip
            predicted[n] = within(rhat, 1.0, 5.0)
            error[n] = e
            refused[n] = rejected
            if rejected or not learn[n]:
                continue
            learned = True
            S = k.noise + T
            per_S = 1.0 / S
            step_p, step_q = vector_steps(e, rho, per_S, scalars, su, scalars, si, p, q, vu, vi, k)
            store(a, 0, step_p)
            store(b, 0, step_q)
            write_literal(C, C_pages, D, K, at_u, signs_u, a)
            write_literal(C, C_pages, D, K, at_i, signs_i, b)
            mean, mean_variance = step_mean(mean, mean_variance, e, rho, S)
            if tags[su] == 0 or tags[si] == 0:
                si = claim_both(tags, tags_pages, su, si, hu, hi)
            touch_triple(scalars_pages, su, FLOATS)
            touch_triple(scalars_pages, si, FLOATS)
            step_both(scalars, su, scalars, si, e, rho, per_S, pp, qq, rated, k)
        if learned:
            overall[MEAN], overall[MEAN_VARIANCE] = mean, mean_variance

    return learn_literal
