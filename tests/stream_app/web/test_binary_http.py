"""Binary HTTP, against the examples of RFC 9292 (figures 8 and 13), and hostile bytes."""

from __future__ import annotations

import hypothesis
import pytest
from hypothesis import strategies

from stream_app.web.binary_http import PADDED_TO, Message, decode, encode, padded

FIGURE_8 = bytes.fromhex("""
    00034745 54056874 74707300 0a2f6865 6c6c6f2e 74787440 6c0a7573 65722d61 67656e74 34637572
    6c2f372e 31362e33 206c6962 6375726c 2f372e31 362e3320 4f70656e 53534c2f 302e392e 376c207a
    6c69622f 312e322e 3304686f 73740f77 77772e65 78616d70 6c652e63 6f6d0f61 63636570 742d6c61
    6e677561 67650665 6e2c206d 690000""")
REQUEST = Message(
    (
        ("user-agent", "curl/7.16.3 libcurl/7.16.3 OpenSSL/0.9.7l zlib/1.2.3"),
        ("host", "www.example.com"),
        ("accept-language", "en, mi"),
    ),
    control=("GET", "https", "", "/hello.txt"),
)
# With a trailer, `trailer: text`.
FIGURE_13 = bytes.fromhex("""
    0140c800 1d546869 7320636f 6e74656e 7420636f 6e746169 6e732043 524c462e 0d0a0d07 74726169
    6c657204 74657874""")
RESPONSE = Message((), b"This content contains CRLF.\r\n", 200)


def control(path: str, method: str = "GET") -> tuple[str, ...]:
    return method, "https", "", path


def test_the_request_of_the_rfc_is_written_and_read() -> None:
    assert encode(REQUEST) == FIGURE_8
    assert decode(FIGURE_8) == REQUEST


def test_the_response_of_the_rfc_is_read() -> None:
    assert decode(FIGURE_13) == RESPONSE
    assert encode(RESPONSE) == FIGURE_13[: -len(b"\7trailer\4text") - 1] + b"\0"


def test_empty_parts_at_the_end_may_be_missing_and_zeros_may_follow() -> None:
    for message in (FIGURE_8[:-1], FIGURE_8[:-2], padded(FIGURE_8), FIGURE_8 + bytes(3)):
        assert decode(message) == REQUEST
    assert len(padded(FIGURE_8)) == PADDED_TO == len(padded(padded(FIGURE_8)))


@pytest.mark.parametrize("size", [63, 64, 16_383, 16_384, 70_000])
def test_contents_of_every_length_are_read_as_they_were_written(size) -> None:
    request = Message((("content-type", "text/plain"),), bytes(size), 0, control("/reports?a=1"))
    assert decode(padded(encode(request))) == request
    response = Message((("retry-after", "2"),), b"x" * size, 503)
    assert decode(encode(response)) == response


BAD = {
    "nothing": b"",
    "another kind": b"\4" + FIGURE_13[1:],
    "an interim response": encode(Message(status=103)),
    "of unknown length": b"\2" + FIGURE_8[1:],
    "cut in a field": FIGURE_8[:60],
    "more after the end": FIGURE_8 + b"\0\0x",
    "a line in the path": encode(Message(control=control("/a\r\nHost: b"))),
    "a space in the path": encode(Message(control=control("/a b"))),
    "no method": encode(Message(control=control("/", ""))),
    "a line in a field": encode(Message((("a", "b\r\nc: d"),), control=control("/"))),
    "a colon less": encode(Message((("a b", "c"),), control=control("/"))),
}


@pytest.mark.parametrize("message", BAD.values(), ids=BAD)
def test_what_is_no_request_is_refused(message) -> None:
    with pytest.raises(ValueError, match=r"^(it |its |a part )"):
        decode(message)


@hypothesis.given(strategies.binary(max_size=200))
def test_any_bytes_are_read_or_refused(message) -> None:
    try:
        decode(message)
        sentence = ""
    except ValueError as error:
        sentence = str(error)
    assert sentence in SENTENCES  # never what the bytes hold


SENTENCES = {
    "",
    "it is no request and no final response of known length",
    "a part has a character that HTTP does not allow there",
    "it has more than zeros after its end",
    "a part ends too early",
}
