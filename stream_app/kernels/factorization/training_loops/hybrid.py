"""The loop over rows of an entity's own and shared ones (`hybrid_rows.py`)."""

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
)
from stream_app.kernels.factorization.hybrid_rows import claim, prepare, row_of, write
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
from stream_app.kernels.factorization.training_loops import AHEAD, COLUMNS_AHEAD
from stream_app.kernels.machine.dirty_pages import FLOATS, touch_triple
from stream_app.kernels.machine.hashing import hash64
from stream_app.kernels.machine.prefetch import prefetch
from stream_app.kernels.machine.simd import load

LINE = 16  # floats in a cache line
SCRATCH = 2  # rows at the end of C that are no state: vectors of entities without an own row


@cache
def hybrid_loop(D):
    """Return the loop; rows: how many rows of C are for one entity each, given (1,) int64: how many
    are taken. C has SCRATCH rows more than the state."""

    @njit(cache=True, nogil=True, error_model="numpy")
    def learn_hybrid(
        C, tags, scalars, owners, given, overall,
        C_pages, tags_pages, scalars_pages, owners_pages, rows,
        salts, scales, k, likelihood, facts, table,
        users, items, reports, channels, learn, priors, predicted, error, refused, probability,
    ):  # fmt: skip
        shared = C.size // D - rows - SCRATCH
        scratch_u = (rows + shared) * D
        scratch_i = scratch_u + D
        known = facts.shape[0]
        hus, his = np.empty(AHEAD, np.uint64), np.empty(AHEAD, np.uint64)
        for n in range(users.size):
            x = n % AHEAD
            if x == 0:
                many = min(AHEAD, users.size - n)
                prefetch(users, n + COLUMNS_AHEAD)
                prefetch(items, n + COLUMNS_AHEAD)
                for y in range(many):
                    hus[y] = hash64(users[n + y] + salts[0])
                    his[y] = hash64(items[n + y] + salts[1])
                    fetch_bucket(tags, scalars, hus[y])
                    fetch_bucket(tags, scalars, his[y])
                for y in range(many):
                    s = slot_of(tags, hus[y])
                    at = row_of(tags[s], owners[s], hus[y], rows, shared, D)[0]
                    s = slot_of(tags, his[y])
                    other = row_of(tags[s], owners[s], his[y], rows, shared, D)[0]
                    for line in range(0, D, LINE):
                        prefetch(C, max(at, 0) + line)
                        prefetch(C, max(other, 0) + line)
            hu = hus[x]
            hi = his[x]
            su = slot_of(tags, hu)
            si = slot_of(tags, hi)
            at_u, word_u = row_of(tags[su], owners[su], hu, rows, shared, D)
            at_i, word_i = row_of(tags[si], owners[si], hi, rows, shared, D)
            own_u = (at_u >= 0) & (at_u < rows * D)
            own_i = (at_i >= 0) & (at_i < rows * D)
            if not own_u:
                prepare(C, at_u, word_u, hu, scales[0], D, C, scratch_u)
            if not own_i:
                prepare(C, at_i, word_i, hi, scales[1], D, C, scratch_i)
            p = load(C, at_u if own_u else scratch_u, D)
            q = load(C, at_i if own_i else scratch_i, D)
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
            step_p = move(p, q, gu * along, gu * back * k.user_shrink)
            step_q = move(q, p, gi * along, gi * back * k.item_shrink)
            overall[MEAN], overall[MEAN_VARIANCE] = step_mean(
                overall[MEAN], overall[MEAN_VARIANCE], e, rho, S
            )
            if at_u < 0 or at_i < 0:
                claim(
                    C, tags, owners, given, C_pages, tags_pages, owners_pages, su, hu, scales[0],
                    rows, D,
                )  # fmt: skip
                si = slot_of(tags, hi)  # again: both may have found the same free slot
                claim(
                    C, tags, owners, given, C_pages, tags_pages, owners_pages, si, hi, scales[1],
                    rows, D,
                )  # fmt: skip
                at_u, word_u = row_of(tags[su], owners[su], hu, rows, shared, D)
                at_i, word_i = row_of(tags[si], owners[si], hi, rows, shared, D)
            write(C, C_pages, at_u, word_u, step_p, D)
            write(C, C_pages, at_i, word_i, step_q, D)
            touch_triple(scalars_pages, su, FLOATS)
            step_scalars(
                scalars, su, e, rho, per_S, qq, k, k.user_bias_variance, k.user_variance,
                k.user_drift * rated,
            )  # fmt: skip
            touch_triple(scalars_pages, si, FLOATS)
            step_scalars(
                scalars, si, e, rho, per_S, pp, k, k.item_bias_variance, k.item_variance,
                k.item_drift * rated,
            )  # fmt: skip

    return learn_hybrid
