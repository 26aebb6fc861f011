"""Signatures that only the owner of a key can craft, on which libraries differ, with the verdicts
that a replica must give.

Each row: what was crafted, public key, signature of `MESSAGE`, verdict; libsodium gives these
verdicts, OpenSSL another one on the last two. The bytes come from Ed25519 in whole numbers
(`tests/naive/ed25519.py`).
"""

from __future__ import annotations

from stream_app.wire.signatures.envelope import verify_each

MESSAGE = b"murmurec"
VECTORS = (
    (
        "honest",
        "f4bd46521ce7b57899ae6f4ca09eddec689327a86a2232d4a3f2a4f39ac68a9e",
        "18cb12df216e6d81a9a4d975d774867e8fae243d89f6767b42bba8add3cf3495"
        "dd6a01e610ab0281bfac248d3236b7768da0253ae32162abb7fabbb091eae607",
        True,
    ),
    (
        "scalar that is not reduced",
        "f4bd46521ce7b57899ae6f4ca09eddec689327a86a2232d4a3f2a4f39ac68a9e",
        "18cb12df216e6d81a9a4d975d774867e8fae243d89f6767b42bba8add3cf3495"
        "ca3ef7422b0e15d995491c301130968b8da0253ae32162abb7fabbb091eae617",
        False,
    ),
    (
        "commitment off by a point of order 8",
        "f4bd46521ce7b57899ae6f4ca09eddec689327a86a2232d4a3f2a4f39ac68a9e",
        "8302270ca60c07c8f5a4acf3f3692c8b85686441166ded9876b72e0f5d8fd7f6"
        "30cc1f7a33b6dcd2c8e982a592fb12ffcc0aded2c27590c654e31cb1aad0b507",
        False,
    ),
    (
        "key off by a point of order 8",
        "6a04fa7acf0934cb8ab34fbcb40c7f58b109fbee389d186d8e22f705e87de8be",
        "ea1896bee4ba227c54ddb21d5fe733187c9dacec90edca0f553aeee1019ff36b"
        "d846d7c36866051171144fe5929752706029674916f2df7d05c19fa4bbd18105",
        False,
    ),
    (
        "key off, where the equation holds",
        "6179402e249cb0ca4adc8ef42e72ab5fdb507b11e8fd27c1292321875f3c7ffb",
        "f264e185059daa9e120ce8c5ffbb594f3e24458faa137ea0c035125bf5adbaa6"
        "9558bd93bdcbba6782fae6be8d2ebdd11055987a7e5d6893295867aa4f6ce300",
        True,
    ),
    (
        "key of order 8",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        "69a3f54e1b90f3db9b48dc609b799e3010c292afa59c3cb310a94dcabe658c77"
        "cbddf51ee07c047c8519fe94471f6659cfcc70414a86567fe959d6ea49e8900f",
        False,
    ),
    (
        "commitment of order 1",
        "cecc1507dc1ddd7295951c290888f095adb9044d1b73d696e6df065d683bd4fc",
        "0100000000000000000000000000000000000000000000000000000000000000"
        "80163bc49aa21e6447604934c1be449b6f8c9e943685f495a856bee307545c02",
        False,
    ),
)


def library_agrees() -> bool:
    """Return whether the library of this machine gives the verdict of each vector."""
    claims = [(bytes.fromhex(key), bytes.fromhex(signed), MESSAGE) for _, key, signed, _ in VECTORS]
    return bool((verify_each(claims) == [verdict for *_, verdict in VECTORS]).all())
