"""The public scope: the file of item ids, and the turns of items."""

from __future__ import annotations

from pathlib import Path

import pytest

from producers.device.scope import contents, ordered
from stream_app import wire
from stream_app.errors import UserError


def test_item_ids_in_a_file_are_read_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "scope.txt"
    path.write_bytes(b"7\n\n  tt01 \r\n7\n007\n")
    expected = sorted({7, wire.key("  tt01 "), wire.key("007")})
    assert sorted(ordered(path, contents(path)).tolist()) == expected


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "holds no item"), (b"\n\r\n", "holds no item"), (b"1\n\xff\n", "not text in UTF-8"),
     (b"1\n" + b"x" * 129 + b"\n", "line 2: item of 129 bytes")],
    ids=["empty", "blank", "bytes", "long"],
)  # fmt: skip
def test_a_file_without_item_ids_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "scope.txt"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message):
        ordered(path, contents(path))
    for other in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(UserError, match="cannot be read"):
            ordered(other, contents(other))
