"""The loop over a sketch with one address per (entity, row)."""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import njit

from stream_app.kernels.factorization.bias_table import claim_both, fetch_bucket, slot_of
from stream_app.kernels.factorization.count_sketch_blocked import fetch as fetch_blocks
from stream_app.kernels.factorization.count_sketch_blocked import mark
from stream_app.kernels.factorization.count_sketch_blocked import place as place_blocked
from stream_app.kernels.factorization.count_sketch_blocked import read as read_blocked
from stream_app.kernels.factorization.count_sketch_blocked import write as write_blocked
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
from stream_app.kernels.factorization.training_loops import AHEAD, COLUMNS_AHEAD, MARKS_CHECKED
from stream_app.kernels.machine.dirty_pages import FLOATS, all_dirty, touch_triple
from stream_app.kernels.machine.memory import prefetch
from stream_app.kernels.machine.scalars import hash64


@cache
def blocked_loop(D, K):
    """Return the loop over a sketch with one address per (entity, row)."""

    @njit(cache=True, nogil=True, error_model="numpy")
    def learn_blocked(
        C, tags, scalars, overall, C_pages, tags_pages, scalars_pages, salts, k, likelihood, facts,
        table, users, items, reports, channels, learn, priors, predicted, error, refused,
        probability,
    ):  # fmt: skip
        blocks = np.uint64(C.size // (D * K))
        hus, his = np.zeros(AHEAD, np.uint64), np.zeros(AHEAD, np.uint64)
        at_u, at_i = np.empty((K, AHEAD), np.int64), np.empty((K, AHEAD), np.int64)
        words_u, words_i = np.empty((K, AHEAD), np.uint64), np.empty((K, AHEAD), np.uint64)
        mean, mean_variance = overall[MEAN], overall[MEAN_VARIANCE]
        channel, alphabet, exact, apart = np.int64(-1), np.int64(0), False, 0.0
        marked = learned = False
        for n in range(users.size):
            x = n % AHEAD
            if x == 0:
                many = min(AHEAD, users.size - n)
                prefetch(users, n + COLUMNS_AHEAD)
                prefetch(items, n + COLUMNS_AHEAD)
                for y in range(many):
                    hus[y] = hash64(users[n + y] + salts[0])
                    his[y] = hash64(items[n + y] + salts[1])
                place_blocked(hus, D, K, blocks, at_u, words_u)
                place_blocked(his, D, K, blocks, at_i, words_i)
                for y in range(many):
                    fetch_bucket(tags, scalars, hus[y])
                    fetch_bucket(tags, scalars, his[y])
                    fetch_blocks(C, at_u, y, D, K)
                    fetch_blocks(C, at_i, y, D, K)
                if n % MARKS_CHECKED == 0 and not marked:
                    marked = all_dirty(C_pages, C_pages.size) and all_dirty(
                        scalars_pages, scalars_pages.size
                    )
            su = slot_of(tags, hus[x])
            si = slot_of(tags, his[x])
            p = read_blocked(C, at_u, words_u, x, D, K)
            q = read_blocked(C, at_i, words_i, x, D, K)
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
            if not marked:
                mark(C_pages, at_u, x, D, K)
                mark(C_pages, at_i, x, D, K)
                touch_triple(scalars_pages, su, FLOATS)
            write_blocked(C, at_u, words_u, x, D, K, step_p)
            write_blocked(C, at_i, words_i, x, D, K, step_q)
            mean, mean_variance = step_mean(mean, mean_variance, e, rho, S)
            if tags[su] == 0 or tags[si] == 0:
                si = claim_both(tags, tags_pages, su, si, hus[x], his[x])
            if not marked:
                touch_triple(scalars_pages, si, FLOATS)
            step_both(scalars, su, scalars, si, e, rho, per_S, pp, qq, rated, k)
        if learned:
            overall[MEAN], overall[MEAN_VARIANCE] = mean, mean_variance

    return learn_blocked
