"""Training loops over a batch, one for each layout of the vectors: test, then learn, in order.

`blocked_loop(D, K)`, `literal_loop(D, K)` and `dense_loop(D)` return compiled functions with the
sizes built in. All take the columns of a batch (m,), the channel tables and the constants, and
write predicted, error and refused (m,), and for each decoded report its predictive probability
(m,). `priors` is read where the channel protects presence and may
be empty if none does. Where learn[n] is False or event n is refused, nothing is written to the
state. An event is refused when its squared error exceeds `clip`, or when its channel or report is
outside the tables. Writes are marked in the `..._pages` of their array (`dirty_pages.py`), except
for new keys of dense rows: the caller sees how many there are.

The three loops repeat the same few lines instead of sharing them: numba counts references to arrays
that pass through an inlined branch, which costs more than the arithmetic.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import njit

from stream_app.kernels.factorization import count_sketch_blocked as sketch_blocked
from stream_app.kernels.factorization import count_sketch_literal as sketch_literal
from stream_app.kernels.factorization.bias_table import (
    BIAS,
    BIAS_SHARE,
    SHARE,
    fetch_bucket,
    slot_of,
    tag_of,
)
from stream_app.kernels.factorization.channel_posterior import (
    ALPHABET,
    EXACT,
    LEVELS,
    START,
    update_posterior,
)
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
from stream_app.kernels.machine.dirty_pages import FLOATS, touch_float, touch_floats, touch_triple
from stream_app.kernels.machine.hashing import hash64
from stream_app.kernels.machine.simd import add, load, store

AHEAD = 16  # events hashed and prefetched in one pass: few enough for the first cache
place_blocked, read_blocked, write_blocked = (
    sketch_blocked.place,
    sketch_blocked.read,
    sketch_blocked.write,
)
place_literal, read_literal, write_literal = (
    sketch_literal.place,
    sketch_literal.read,
    sketch_literal.write,
)


@cache
def blocked_loop(D, K):
    """Return the loop over a sketch with one address per (entity, row)."""

    @njit(cache=True, nogil=True, error_model="numpy")
    def learn_blocked(
        C, tags, scalars, overall, C_pages, tags_pages, scalars_pages, salts, k, likelihood, facts,
        users, items, reports, channels, learn, priors, predicted, error, refused, probability,
    ):  # fmt: skip
        blocks = np.uint64(C.size // (D * K))
        known = facts.shape[0]
        hus, his = np.empty(AHEAD, np.uint64), np.empty(AHEAD, np.uint64)
        at_u, at_i = np.empty((AHEAD, K), np.int64), np.empty((AHEAD, K), np.int64)
        words_u, words_i = np.empty((AHEAD, K), np.uint64), np.empty((AHEAD, K), np.uint64)
        for n in range(users.size):
            x = n % AHEAD
            if x == 0:
                many = min(AHEAD, users.size - n)
                for y in range(many):
                    hus[y] = hash64(users[n + y] + salts[0])
                    his[y] = hash64(items[n + y] + salts[1])
                    fetch_bucket(tags, scalars, hus[y])
                    fetch_bucket(tags, scalars, his[y])
                place_blocked(C, hus, many, D, K, blocks, at_u, words_u)
                place_blocked(C, his, many, D, K, blocks, at_i, words_i)
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
            rhat = overall[MEAN] + (bias + dot(p, q))
            c = channels[n]
            z = reports[n]
            e = 0.0
            rho = 1.0
            rejected = c >= known or z >= facts[c, ALPHABET]
            if not rejected:
                if facts[c, EXACT]:
                    e = read_exactly(rhat, z, facts[c, LEVELS])
                else:
                    V = k.prior_variance + k.prior_slope * T
                    row = facts[c, START] + z
                    levels = facts[c, LEVELS]
                    e, rho, probability[n] = update_posterior(
                        rhat, V, row, likelihood, levels, priors, n
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
            step_p = move(p, q, vu * along, vu * back * k.user_shrink)
            step_q = move(q, p, vi * along, vi * back * k.item_shrink)
            write_blocked(C, C_pages, at_u, words_u, x, D, K, step_p)
            write_blocked(C, C_pages, at_i, words_i, x, D, K, step_q)
            step_mean(overall, e, rho, S)
            fresh = tags[si] == 0
            if tags[su] == 0:
                tags[su] = tag_of(hus[x])
                touch_float(tags_pages, su)
            touch_triple(scalars_pages, su, FLOATS)
            step_scalars(scalars, su, e, rho, per_S, qq, k, k.user_bias_variance, k.user_variance)
            if fresh:
                si = slot_of(tags, his[x])  # again: both may have found the same free slot
                if tags[si] == 0:
                    tags[si] = tag_of(his[x])
                    touch_float(tags_pages, si)
            touch_triple(scalars_pages, si, FLOATS)
            step_scalars(scalars, si, e, rho, per_S, pp, k, k.item_bias_variance, k.item_variance)

    return learn_blocked


@cache
def literal_loop(D, K):
    """Return the loop over a sketch with one address per (entity, component, row)."""

    @njit(cache=True, nogil=True, error_model="numpy")
    def learn_literal(
        C, tags, scalars, overall, C_pages, tags_pages, scalars_pages, salts, k, likelihood, facts,
        users, items, reports, channels, learn, priors, predicted, error, refused, probability,
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
            rejected = c >= known or z >= facts[c, ALPHABET]
            if not rejected:
                if facts[c, EXACT]:
                    e = read_exactly(rhat, z, facts[c, LEVELS])
                else:
                    V = k.prior_variance + k.prior_slope * T
                    row = facts[c, START] + z
                    levels = facts[c, LEVELS]
                    e, rho, probability[n] = update_posterior(
                        rhat, V, row, likelihood, levels, priors, n
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
            store(a, 0, move(p, q, vu * along, vu * back * k.user_shrink))
            store(b, 0, move(q, p, vi * along, vi * back * k.item_shrink))
            write_literal(C, C_pages, D, K, at_u, signs_u, a)
            write_literal(C, C_pages, D, K, at_i, signs_i, b)
            step_mean(overall, e, rho, S)
            fresh = tags[si] == 0
            if tags[su] == 0:
                tags[su] = tag_of(hu)
                touch_float(tags_pages, su)
            touch_triple(scalars_pages, su, FLOATS)
            step_scalars(scalars, su, e, rho, per_S, qq, k, k.user_bias_variance, k.user_variance)
            if fresh:
                si = slot_of(tags, hi)  # again: both may have found the same free slot
                if tags[si] == 0:
                    tags[si] = tag_of(hi)
                    touch_float(tags_pages, si)
            touch_triple(scalars_pages, si, FLOATS)
            step_scalars(scalars, si, e, rho, per_S, pp, k, k.item_bias_variance, k.item_variance)

    return learn_literal


@cache
def dense_loop(D):
    """Return the loop over dense rows; counts (2,) int64: the rows in use, of users and items."""

    @njit(cache=True, nogil=True, error_model="numpy")
    def learn_dense(
        slots_u, keys_u, vectors_u, scalars_u, slots_i, keys_i, vectors_i, scalars_i, counts,
        vectors_u_pages, scalars_u_pages, vectors_i_pages, scalars_i_pages,
        overall, salts, scales, k, likelihood, facts,
        users, items, reports, channels, learn, priors, predicted, error, refused, probability,
    ):  # fmt: skip
        known = facts.shape[0]
        us, its = np.empty(AHEAD, np.int64), np.empty(AHEAD, np.int64)
        slot_u = slot_i = np.int64(-1)
        for n in range(users.size):
            x = n % AHEAD
            if x == 0:
                many = min(AHEAD, users.size - n)
                find_known(slots_u, keys_u, users, n, many, us)
                find_known(slots_i, keys_i, items, n, many, its)
            u = us[x]
            i = its[x]
            if u < 0:
                u, slot_u = row_of(
                    slots_u, keys_u, counts[0], users[n], salts[0], scales[0], D,
                    vectors_u, scalars_u,
                )  # fmt: skip
            if i < 0:
                i, slot_i = row_of(
                    slots_i, keys_i, counts[1], items[n], salts[1], scales[1], D,
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
            rejected = c >= known or z >= facts[c, ALPHABET]
            if not rejected:
                if facts[c, EXACT]:
                    e = read_exactly(rhat, z, facts[c, LEVELS])
                else:
                    V = k.prior_variance + k.prior_slope * T
                    row = facts[c, START] + z
                    levels = facts[c, LEVELS]
                    e, rho, probability[n] = update_posterior(
                        rhat, V, row, likelihood, levels, priors, n
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
            step_scalars(scalars_u, u, e, rho, per_S, qq, k, k.user_bias_variance, k.user_variance)
            step_scalars(scalars_i, i, e, rho, per_S, pp, k, k.item_bias_variance, k.item_variance)
            if u == counts[0]:
                slots_u[slot_u] = u
                keys_u[u] = users[n]
                counts[0] += 1
            if i == counts[1]:
                slots_i[slot_i] = i
                keys_i[i] = items[n]
                counts[1] += 1

    return learn_dense
