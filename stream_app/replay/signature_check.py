"""Checks the signatures of a run on a few threads, beside the event loop and the interpreter.

A check takes about 45 us of a processor. Threads of a process share the interpreter, and one that
leaves it for every signature waits for it as often: beside a busy thread that costs three quarters
of the rate. So a run is cut into parts of at most `_TOGETHER` signatures, each checked by one call
without the interpreter, and the verdicts keep the order of the run.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate

import numpy as np
from nacl._sodium import ffi, lib
from numpy.typing import NDArray

from stream_app.errors import UserError
from stream_app.kernels.stream.signatures import verify_all
from stream_app.wire.signatures import Claim
from stream_app.wire.signatures.vectors import library_agrees

_TOGETHER = 64
_MOST_THREADS = 4


class SignatureCheck:
    """A verifier for `Signatures.verify`, with the verdicts of `verify_each`; any thread calls it.

    Raises UserError where the installed libsodium has other rules than replicas must share.
    """

    def __init__(self, threads: int | None = None) -> None:
        if not library_agrees():
            raise UserError(
                "signatures: the libsodium installed here accepts other signatures than murmurec "
                "does, and replicas would differ: install the PyNaCl of requirements.lock"
            )
        count = threads or min(_MOST_THREADS, os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(count, thread_name_prefix="murmurec-signatures")
        self._address = np.int64(int(ffi.cast("intptr_t", ffi.addressof(lib, "crypto_sign_open"))))

    def __call__(self, claims: Sequence[Claim]) -> NDArray[np.bool_]:
        """Return for each claim whether it is true."""
        parts = [claims[at : at + _TOGETHER] for at in range(0, len(claims), _TOGETHER)]
        if len(parts) < 2:
            return self._verdicts(claims)
        return np.concatenate(list(self._pool.map(self._verdicts, parts)))

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown()

    def _verdicts(self, claims: Sequence[Claim]) -> NDArray[np.bool_]:
        keys = b"".join([claim.public_key for claim in claims])
        sizes = [len(claim.signature) + len(claim.message) for claim in claims]
        signed = b"".join([part for claim in claims for part in claim[1:]])
        verdicts = np.zeros(len(claims), np.bool_)
        verify_all(
            self._address,
            np.frombuffer(signed, np.uint8),
            np.array([0, *accumulate(sizes)], np.int64),
            np.frombuffer(keys, np.uint8).reshape(-1, 32),
            np.empty(max(sizes, default=0), np.uint8),
            verdicts,
        )
        return verdicts
