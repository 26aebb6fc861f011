"""The loop over dense rows."""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import njit

from stream_app.kernels.factorization.bias_table import BIAS, BIAS_SHARE, SHARE
from stream_app.kernels.factorization.dense_rows import find_known, row_of, seek
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
from stream_app.kernels.factorization.training_loops import AHEAD, COLUMNS_AHEAD, MARKS_CHECKED
from stream_app.kernels.machine.dirty_pages import (
    FLOATS,
    all_dirty,
    pages_of,
    touch_floats,
    touch_triple,
)
from stream_app.kernels.machine.prefetch import prefetch
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
        mean, mean_variance = overall[MEAN], overall[MEAN_VARIANCE]
        channel, alphabet, exact, apart = np.int64(-1), np.int64(0), False, 0.0
        marked = learned = False
        us, its = np.empty(AHEAD, np.int64), np.empty(AHEAD, np.int64)
        homes_u, homes_i = np.empty(AHEAD, np.uint64), np.empty(AHEAD, np.uint64)
        seek(slots_u, seed, users, 0, homes_u)
        seek(slots_i, seed, items, 0, homes_i)
        slot_u = slot_i = np.int64(-1)
        for n in range(users.size):
            x = n % AHEAD
            if x == 0:
                many = min(AHEAD, users.size - n)
                prefetch(users, n + COLUMNS_AHEAD)
                prefetch(items, n + COLUMNS_AHEAD)
                find_known(slots_u, keys_u, users, n, many, homes_u, vectors_u, scalars_u, D, us)
                find_known(slots_i, keys_i, items, n, many, homes_i, vectors_i, scalars_i, D, its)
                seek(slots_u, seed, users, n + AHEAD, homes_u)
                seek(slots_i, seed, items, n + AHEAD, homes_i)
                if n % MARKS_CHECKED == 0 and not marked:
                    rows_u, rows_i = counts[0], counts[1]
                    marked = all_dirty(vectors_u_pages, pages_of(rows_u * D))
                    marked = marked and all_dirty(vectors_i_pages, pages_of(rows_i * D))
                    marked = marked and all_dirty(scalars_u_pages, pages_of(rows_u * 3))
                    marked = marked and all_dirty(scalars_i_pages, pages_of(rows_i * 3))
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
            rhat = mean + (bias + dot(p, q))
            c = np.int64(channels[n])
            z = reports[n]
            if c != channel:
                channel = c
                alphabet = facts[c, ALPHABET] if c < facts.shape[0] else 0
                exact = alphabet > 0 and facts[c, EXACT] != 0
                apart = distance(facts[c, LEVELS]) if exact else 0.0
            e = 0.0
            rho = 1.0
            rated = 1.0
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
            along = per_S * e
            back = per_S * rho
            gu = vector_gain(vu, scalars_u[u, BIAS_SHARE], k)
            gi = vector_gain(vi, scalars_i[i, BIAS_SHARE], k)
            if not marked or u == counts[0] or i == counts[1]:
                touch_floats(vectors_u_pages, u * D, D)
                touch_floats(vectors_i_pages, i * D, D)
                touch_triple(scalars_u_pages, u, FLOATS)
                touch_triple(scalars_i_pages, i, FLOATS)
            store(vectors_u, u * D, add(p, move(p, q, gu * along, gu * back * k.user_shrink)))
            store(vectors_i, i * D, add(q, move(q, p, gi * along, gi * back * k.item_shrink)))
            mean, mean_variance = step_mean(mean, mean_variance, e, rho, S)
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
        if learned:
            overall[MEAN], overall[MEAN_VARIANCE] = mean, mean_variance

    return learn_dense
