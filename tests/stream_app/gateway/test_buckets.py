"""Token buckets: the rate, the burst, and whose bucket it is."""

import pytest

from stream_app.gateway.buckets import BURST_SECONDS, Buckets, client


def test_a_burst_then_the_rate():
    buckets = Buckets(rate=10)
    burst = int(10 * BURST_SECONDS)
    assert [buckets.wait(b"a", 5.0) for _ in range(burst)] == [0.0] * burst
    assert buckets.wait(b"a", 5.0) == pytest.approx(0.1)
    assert buckets.wait(b"a", 5.05) == pytest.approx(0.05)
    assert buckets.wait(b"a", 5.11) == 0
    assert buckets.wait(b"a", 5.11) > 0


def test_a_refusal_takes_nothing():
    buckets = Buckets(rate=1)
    while not buckets.wait(b"a", 0.0):
        pass
    for _ in range(100):
        assert buckets.wait(b"a", 0.5) == pytest.approx(0.5)


def test_each_key_has_a_bucket_of_its_own():
    buckets = Buckets(rate=0.1)
    assert buckets.wait(b"a", 0.0) == 0
    assert buckets.wait(b"a", 0.0) > 0
    assert buckets.wait(b"b", 0.0) == 0


def test_no_rate_is_no_limit():
    buckets = Buckets(rate=0)
    assert [buckets.wait(b"a", 0.0) for _ in range(1000)] == [0.0] * 1000
    assert len(buckets) == 0


def test_memory_is_bounded_and_the_least_used_goes_first():
    buckets = Buckets(rate=0.1, most=10)
    for number in range(10):
        buckets.wait(bytes([number]), 0.0)
    assert buckets.wait(b"\0", 0.0) > 0  # used again: the newest now
    for number in range(10, 19):
        buckets.wait(bytes([number]), 0.0)
    assert len(buckets) == 10
    assert buckets.wait(b"\0", 0.0) > 0
    assert buckets.wait(b"\1", 0.0) == 0


@pytest.mark.parametrize(
    ("one_address", "another", "equal"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("fe80::1%eth0", "fe80::1", True),
        (None, "x", True),
        (None, "10.0.0.1", False),
    ],
)
def test_whose_bucket_it_is(one_address, another, equal):
    assert (client(one_address) == client(another)) == equal
