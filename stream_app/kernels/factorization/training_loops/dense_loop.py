"""The loop over dense rows."""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import njit

from stream_app.kernels.factorization.dense_rows import find_known, row_of, seek
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
from stream_app.kernels.factorization.training_loops import AHEAD, COLUMNS_AHEAD
from stream_app.kernels.machine.memory import prefetch
from stream_app.kernels.machine.simd import add, load, store


@cache
def dense_loop(D):
    """Return the loop over dense rows; counts (2,) int64: the rows in use, of users and items.

    seed: places keys in `slots_u` and `slots_i` and changes nothing else.
    """

    @njit(cache=True, nogil=True, error_model="numpy")
    def learn_dense(
        slots_u, keys_u, vectors_u, scalars_u, slots_i, keys_i, vectors_i, scalars_i, counts,
        seed, overall, salts, scales, k, likelihood, facts, table,
        users, items, reports, channels, learn, priors, predicted, error, refused, probability,
    ):  # fmt: skip
        mean, mean_variance = overall[MEAN], overall[MEAN_VARIANCE]
        channel, alphabet, exact, apart = np.int64(-1), np.int64(0), False, 0.0
        learned = False
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
            rhat, T, pp, qq, vu, vi = predict(mean, scalars_u, u, scalars_i, i, p, q, k, D)
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
            step_p, step_q = vector_steps(
                e, rho, per_S, scalars_u, u, scalars_i, i, p, q, vu, vi, k
            )
            store(vectors_u, u * D, add(p, step_p))
            store(vectors_i, i * D, add(q, step_q))
            mean, mean_variance = step_mean(mean, mean_variance, e, rho, S)
            step_both(scalars_u, u, scalars_i, i, e, rho, per_S, pp, qq, rated, k)
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
