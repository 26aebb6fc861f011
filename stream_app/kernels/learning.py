"""The event loop over a batch, one for each layout of the vectors: test, then learn, in order.

`sketch_loop(literal, D, K)` and `dense_loop(D)` return compiled functions with the sizes built in, so that
the loops over components unroll and vectorise. All take the columns of a batch (m,), the channel tables, the
constants, and write predicted / error / refused (m,). With learn[n] False, or when an event is refused,
nothing is written to the state.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numba import njit

from stream_app.kernels.lesson import (
    MEAN,
    dot,
    hear,
    move,
    step_bias,
    step_mean,
    step_variance,
    within,
)
from stream_app.kernels.mixing import mix
from stream_app.kernels.scalars import BIAS, BIAS_VARIANCE, VARIANCE, slot_of, tag_of
from stream_app.kernels.sketch_blocked import read, write


@cache
def sketch_loop(literal, D, K):
    """Return the loop for vectors in a count sketch: `literal` or blocked, D components, K rows."""
    place = sketch_literal.place if literal else sketch_blocked.place
    del place
    return _literal_loop(D, K) if literal else _blocked_loop(D, K)


def _blocked_loop(D, K):

    @njit(cache=True, nogil=True, error_model="numpy")
    def learn_blocked(
        C, tags, scalars, overall, salts, k,
        likelihood, alphabets, levels, exact,
        users, items, reports, mechanisms, learn,
        predicted, error, refused,
    ):
        blocks = np.uint64(C.size // (D * K))
        for n in range(users.size):
            hu = mix(users[n] + salts[0])
            hi = mix(items[n] + salts[1])
            su = slot_of(tags, hu)
            si = slot_of(tags, hi)
            bu = 0.0
            vbu = k.user_bias_variance
            vu = k.user_variance
            if tags[su] != 0:
                bu = np.float64(scalars[su, BIAS])
                vbu = np.float64(scalars[su, BIAS_VARIANCE])
                vu = np.float64(scalars[su, VARIANCE])
            bi = 0.0
            vbi = k.item_bias_variance
            vi = k.item_variance
            if tags[si] != 0:
                bi = np.float64(scalars[si, BIAS])
                vbi = np.float64(scalars[si, BIAS_VARIANCE])
                vi = np.float64(scalars[si, VARIANCE])
            p = read(C, hu, blocks, D, K)
            q = read(C, hi, blocks, D, K)
            pp = dot(p, p)
            qq = dot(q, q)
            rhat = overall[MEAN] + bu + bi + dot(p, q)
            T = vbu + vbi + vu * qq + vi * pp + k.coupling * D * vu * vi
            S = k.noise + T
            e, rho, no = hear(rhat, T, reports[n], mechanisms[n], k, likelihood, alphabets, levels, exact)
            predicted[n] = within(rhat, 1.0, 5.0)
            error[n] = e
            refused[n] = no
            if no or not learn[n]:
                continue
            per_S = 1.0 / S
            gu = vu * per_S
            gi = vi * per_S
            write(C, hu, blocks, D, K, move(p, q, gu * e, gu * k.shrink * rho))
            write(C, hi, blocks, D, K, move(q, p, gi * e, gi * k.shrink * rho))
            step_mean(overall, e, rho, S)
            bu, vbu = step_bias(bu, vbu, e, rho, per_S, k.bias_shrink, k.user_bias_variance)
            bi, vbi = step_bias(bi, vbi, e, rho, per_S, k.bias_shrink, k.item_bias_variance)
            if tags[su] == 0:
                tags[su] = tag_of(hu)
            scalars[su, BIAS] = np.float32(bu)
            scalars[su, BIAS_VARIANCE] = np.float32(vbu)
            scalars[su, VARIANCE] = np.float32(step_variance(vu, qq, rho, per_S, k.coupling, k.user_variance))
            if tags[si] == 0:
                tags[si] = tag_of(hi)
            scalars[si, BIAS] = np.float32(bi)
            scalars[si, BIAS_VARIANCE] = np.float32(vbi)
            scalars[si, VARIANCE] = np.float32(step_variance(vi, pp, rho, per_S, k.coupling, k.item_variance))

    return learn_blocked
