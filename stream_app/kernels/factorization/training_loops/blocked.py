"""The loop over a sketch with one address per (entity, row)."""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import njit

from stream_app.kernels.factorization.bias_table import (
    BIAS,
    BIAS_SHARE,
    SHARE,
    fetch_bucket,
    slot_of,
    tag_of,
)
from stream_app.kernels.factorization.count_sketch_blocked import fetch as fetch_blocks
from stream_app.kernels.factorization.count_sketch_blocked import mark
from stream_app.kernels.factorization.count_sketch_blocked import place as place_blocked
from stream_app.kernels.factorization.count_sketch_blocked import read as read_blocked
from stream_app.kernels.factorization.count_sketch_blocked import write as write_blocked
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
from stream_app.kernels.machine.dirty_pages import FLOATS, all_dirty, touch_float, touch_triple
from stream_app.kernels.machine.hashing import hash64
from stream_app.kernels.machine.prefetch import prefetch


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
            gu = vector_gain(vu, scalars[su, BIAS_SHARE], k)
            gi = vector_gain(vi, scalars[si, BIAS_SHARE], k)
            if not marked:
                mark(C_pages, at_u, x, D, K)
                mark(C_pages, at_i, x, D, K)
                touch_triple(scalars_pages, su, FLOATS)
            step_p = move(p, q, gu * along, gu * back * k.user_shrink)
            step_q = move(q, p, gi * along, gi * back * k.item_shrink)
            write_blocked(C, at_u, words_u, x, D, K, step_p)
            write_blocked(C, at_i, words_i, x, D, K, step_q)
            mean, mean_variance = step_mean(mean, mean_variance, e, rho, S)
            fresh = tags[si] == 0
            if tags[su] == 0:
                touch_float(tags_pages, su)
                tags[su] = tag_of(hus[x])
            step_scalars(
                scalars, su, e, rho, per_S, qq, k, k.user_bias_variance, k.user_variance,
                k.user_drift * rated,
            )  # fmt: skip
            if fresh:
                si = slot_of(tags, his[x])  # again: both may have found the same free slot
                if tags[si] == 0:
                    touch_float(tags_pages, si)
                    tags[si] = tag_of(his[x])
            if not marked:
                touch_triple(scalars_pages, si, FLOATS)
            step_scalars(
                scalars, si, e, rho, per_S, pp, k, k.item_bias_variance, k.item_variance,
                k.item_drift * rated,
            )  # fmt: skip
        if learned:
            overall[MEAN], overall[MEAN_VARIANCE] = mean, mean_variance

    return learn_blocked
