"""The loop over rows of an entity's own and shared ones (`hybrid_rows.py`)."""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import njit

from stream_app.kernels.factorization.bias_table import fetch_bucket, slot_of
from stream_app.kernels.factorization.hybrid_rows import claim, prepare, row_of, write
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
from stream_app.kernels.machine.dirty_pages import FLOATS, touch_triple
from stream_app.kernels.machine.memory import prefetch
from stream_app.kernels.machine.scalars import hash64
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
        mean, mean_variance = overall[MEAN], overall[MEAN_VARIANCE]
        channel, alphabet, exact, apart = np.int64(-1), np.int64(0), False, 0.0
        learned = False
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
            mean, mean_variance = step_mean(mean, mean_variance, e, rho, S)
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
            touch_triple(scalars_pages, si, FLOATS)
            step_both(scalars, su, scalars, si, e, rho, per_S, pp, qq, rated, k)
        if learned:
            overall[MEAN], overall[MEAN_VARIANCE] = mean, mean_variance

    return learn_hybrid
