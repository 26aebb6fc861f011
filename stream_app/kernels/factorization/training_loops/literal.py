"""The loop over a sketch with one address per (entity, component, row)."""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import njit

from stream_app.kernels.factorization.bias_table import (
    BIAS,
    BIAS_SHARE,
    SHARE,
    slot_of,
    tag_of,
)
from stream_app.kernels.factorization.count_sketch_literal import place as place_literal
from stream_app.kernels.factorization.count_sketch_literal import read as read_literal
from stream_app.kernels.factorization.count_sketch_literal import write as write_literal
from stream_app.kernels.factorization.kalman_update import (
    MEAN,
    MEAN_VARIANCE,
    distance,
    dot,
    move,
    read_exactly,
    step_mean,
    step_scalars,
    vector_gain,
    within,
)
from stream_app.kernels.factorization.posterior.channel_posterior import (
    ALPHABET,
    EXACT,
    LEVELS,
    START,
    update_posterior,
)
from stream_app.kernels.machine.dirty_pages import FLOATS, touch_float, touch_triple
from stream_app.kernels.machine.hashing import hash64
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
        known = facts.shape[0]
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
            pp = dot(p, p)
            qq = dot(q, q)
            vu = np.float64(scalars[su, SHARE]) * k.user_variance
            vi = np.float64(scalars[si, SHARE]) * k.item_variance
            T = (
                np.float64(scalars[su, BIAS_SHARE]) * k.user_bias_variance
                + np.float64(scalars[si, BIAS_SHARE]) * k.item_bias_variance
                + (vu * qq + vi * pp + k.coupling * D * vu * vi)
            )
            bias = np.float64(scalars[su, BIAS]) + np.float64(scalars[si, BIAS])
            rhat = overall[MEAN] + (bias + dot(p, q))
            c = channels[n]
            z = reports[n]
            e = 0.0
            rho = 1.0
            rated = 1.0
            rejected = c >= known or z >= facts[c, ALPHABET]
            if not rejected:
                if facts[c, EXACT]:
                    e = read_exactly(rhat, z, distance(facts[c, LEVELS]))
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
            S = k.noise + T
            per_S = 1.0 / S
            along = per_S * e
            back = per_S * rho
            gu = vector_gain(vu, scalars[su, BIAS_SHARE], k)
            gi = vector_gain(vi, scalars[si, BIAS_SHARE], k)
            store(a, 0, move(p, q, gu * along, gu * back * k.user_shrink))
            store(b, 0, move(q, p, gi * along, gi * back * k.item_shrink))
            write_literal(C, C_pages, D, K, at_u, signs_u, a)
            write_literal(C, C_pages, D, K, at_i, signs_i, b)
            overall[MEAN], overall[MEAN_VARIANCE] = step_mean(
                overall[MEAN], overall[MEAN_VARIANCE], e, rho, S
            )
            fresh = tags[si] == 0
            if tags[su] == 0:
                touch_float(tags_pages, su)
                tags[su] = tag_of(hu)
            touch_triple(scalars_pages, su, FLOATS)
            step_scalars(
                scalars, su, e, rho, per_S, qq, k, k.user_bias_variance, k.user_variance,
                k.user_drift * rated,
            )  # fmt: skip
            if fresh:
                si = slot_of(tags, hi)  # again: both may have found the same free slot
                if tags[si] == 0:
                    touch_float(tags_pages, si)
                    tags[si] = tag_of(hi)
            touch_triple(scalars_pages, si, FLOATS)
            step_scalars(
                scalars, si, e, rho, per_S, pp, k, k.item_bias_variance, k.item_variance,
                k.item_drift * rated,
            )  # fmt: skip

    return learn_literal
