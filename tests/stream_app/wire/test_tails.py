"""The fingerprint of a record depends on each of its four parts, and on nothing else."""

from __future__ import annotations

import pytest

from stream_app.wire import fingerprint

RECORD = (7, 2, b"key", b"value")


def test_a_record_has_this_fingerprint() -> None:
    assert fingerprint(*RECORD) == "585a5f3c17ee4f77"


@pytest.mark.parametrize(
    "other",
    [
        (8, 2, b"key", b"value"),
        (7, 3, b"key", b"value"),
        (7, 2, b"keyv", b"alue"),
        (7, 2, b"", b"keyvalue"),
        (7, 2, None, b"keyvalue"),
        (7, 2, b"key", b""),
        (7, 2, b"key", None),
    ],
    ids=["offset", "epoch", "border", "empty key", "no key", "empty value", "no value"],
)
def test_a_record_that_differs_in_one_part_has_another(
    other: tuple[int, int, bytes | None, bytes | None],
) -> None:
    assert fingerprint(*other) != fingerprint(*RECORD)
    assert (
        len({fingerprint(*RECORD), fingerprint(7, 2, b"", b""), fingerprint(7, 2, None, b"")}) == 3
    )
