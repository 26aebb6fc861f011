"""The loop over dense rows."""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import njit

from stream_app.kernels.factorization.bias_table import BIAS, BIAS_SHARE, SHARE
from stream_app.kernels.factorization.dense_rows import find_known, row_of
from stream_app.kernels.factorization.kalman_update import (
    MEAN,
    dot,
    move,
    read_exactly,
    step_mean,
    step_scalars,
    within,
)
from stream_app.kernels.factorization.posterior.channel_posterior import (
    ALPHABET,
    EXACT,
    LEVELS,
    START,
    update_posterior,
)
from stream_app.kernels.factorization.training_loops import AHEAD
from stream_app.kernels.machine.dirty_pages import FLOATS, touch_floats, touch_triple
from stream_app.kernels.machine.simd import add, load, store


@cache
def dense_loop(D):
    """Return the loop over dense rows; counts (2,) int64: the rows in use, of users and items.

    seed: places keys in `slots_u` and `slots_i` and changes nothing else.
    """

    @njit(cache=True, nogil=True, error_model="numpy")
    def learn_dense(
        slots_u, keys_u, vectors_u, scalars_u, slots_i, keys_i, vectors_i, scalars_i, counts,
        vectors_u_pages, scalars_u_pages, vectors_i_pages, scalars_i_pages,
        seed, overall, salts, scales, k, likelihood, facts, table,
        users, items, reports, channels, learn, priors, predicted, error, refused, probability,
    ):  # fmt: skip
        known = facts.shape[0]
        us, its = np.empty(AHEAD, np.int64), np.empty(AHEAD, np.int64)
        slot_u = slot_i = np.int64(-1)
        for n in range(users.size):
            x = n % AHEAD
            if x == 0:
                many = min(AHEAD, users.size - n)
                find_known(slots_u, keys_u, seed, users, n, many, us)
                find_known(slots_i, keys_i, seed, items, n, many, its)
            u = us[x]
            i = its[x]
            if u < 0:
                u, slot_u = row_of(
                    slots_u, keys_u, seed, counts[0], users[n], salts[0], scales[0], D,
                    vectors_u, scalars_u,
                )  # fmt: skip
            if i < 0:
                i, slot_i = row_of(
                    slots_i, keys_i, seed, counts[1], items[n], salts[1], scales[1], D,
                    vectors_i, scalars_i,
                )  # fmt: skip
            p = load(vectors_u, u * D, D)
            q = load(vectors_i, i * D, D)
            pp = dot(p, p)
            qq = dot(q, q)
            vu = np.float64(scalars_u[u, SHARE]) * k.user_variance
            vi = np.float64(scalars_i[i, SHARE]) * k.item_variance
            T = (
                np.float64(scalars_u[u, BIAS_SHARE]) * k.user_bias_variance
                + np.float64(scalars_i[i, BIAS_SHARE]) * k.item_bias_variance
                + (vu * qq + vi * pp + k.coupling * D * vu * vi)
            )
            bias = np.float64(scalars_u[u, BIAS]) + np.float64(scalars_i[i, BIAS])
            rhat = overall[MEAN] + (bias + dot(p, q))
            c = channels[n]
            z = reports[n]
            e = 0.0
            rho = 1.0
            rated = 1.0
            rejected = c >= known or z >= facts[c, ALPHABET]
            if not rejected:
                if facts[c, EXACT]:
                    e = read_exactly(rhat, z, facts[c, LEVELS])
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
            touch_floats(vectors_u_pages, u * D, D)
            touch_floats(vectors_i_pages, i * D, D)
            touch_triple(scalars_u_pages, u, FLOATS)
            touch_triple(scalars_i_pages, i, FLOATS)
            store(vectors_u, u * D, add(p, move(p, q, vu * along, vu * back * k.user_shrink)))
            store(vectors_i, i * D, add(q, move(q, p, vi * along, vi * back * k.item_shrink)))
            step_mean(overall, e, rho, S)
            step_scalars(
                scalars_u, u, e, rho, per_S, qq, k, k.user_bias_variance, k.user_variance,
                k.user_drift * rated,
            )  # fmt: skip
            step_scalars(
                scalars_i, i, e, rho, per_S, pp, k, k.item_bias_variance, k.item_variance,
                k.item_drift * rated,
            )  # fmt: skip
            if u == counts[0]:
                slots_u[slot_u] = u
                keys_u[u] = users[n]
                counts[0] += 1
            if i == counts[1]:
                slots_i[slot_i] = i
                keys_i[i] = items[n]
                counts[1] += 1

    return learn_dense
