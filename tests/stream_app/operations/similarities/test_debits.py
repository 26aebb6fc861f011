"""The log of releases: which debits count, what they cost together, and what a log may hold."""

from __future__ import annotations

from fractions import Fraction

import msgspec
import pytest

from stream_app.campaigns.noise_once import plan_for
from stream_app.operations.similarities.debits import (
    BUDGET_DELTA,
    Account,
    Debit,
    decode_debit,
    encode_debit,
)

DELTA = Fraction(1, 10**6)


def debit(number: int, epsilon: str = "1", budget: str = "2", items: int = 20) -> Debit:
    (sums,) = plan_for(Fraction(epsilon), DELTA, items).certificate.sums
    return Debit(
        f"{number:032x}", sums.bound, sums.variance, sums.size, Fraction(epsilon), DELTA,
        Fraction(budget), 7,
    )  # fmt: skip


GOLDEN = encode_debit(debit(1))


def test_a_debit_round_trips() -> None:
    assert decode_debit(GOLDEN) == debit(1)
    assert b'"epsilon":"1","delta":"1/1000000","budget":"2"' in GOLDEN


@pytest.mark.parametrize(
    "changes",
    [
        {"v": 2}, {"id": "x"}, {"bound": 0}, {"bound": 2**40}, {"variance": "1"},
        {"variance": "nan"}, {"size": 0}, {"epsilon": "0"}, {"epsilon": "-1"}, {"epsilon": 1.0},
        {"budget": "inf"}, {"cut": -1}, {"more": 1},
    ],
    ids=str,
)  # fmt: skip
def test_what_is_no_debit_is_refused(changes: dict[str, object]) -> None:
    value = msgspec.json.encode(msgspec.json.decode(GOLDEN) | changes)
    with pytest.raises(ValueError, match=r"."):
        decode_debit(value)


@pytest.mark.parametrize("value", [None, b"", b"\xff", b"{}", b"[" * 5000, GOLDEN[:-1]])
def test_bytes_that_are_no_debit_are_refused(value: bytes | None) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_debit(value)


def test_releases_compose_by_the_curve_of_gaussians_and_not_by_sums() -> None:
    account = Account.of_log([debit(n, "1", "10") for n in range(1, 5)])
    assert len(account.counted) == 4
    spent = account.spent()
    assert 2 < spent < Fraction(5, 2)  # the sum is 4
    assert account.certificate.delta(spent) <= BUDGET_DELTA
    assert Account().spent() == 0


def test_a_debit_counts_while_what_is_before_it_leaves_room() -> None:
    made = [debit(n) for n in range(1, 6)]
    account = Account.of_log(made)
    assert [each.id for each in account.counted] == [each.id for each in made[:3]]
    assert account.spent() <= 2 < account.with_debit(made[3]).spent()
    assert [account.number(each.id) for each in made] == [1, 2, 3, 0, 0]


def test_a_smaller_debit_may_fit_after_a_larger_one_did_not() -> None:
    made = [debit(1, "2"), debit(2, "1"), debit(3, "1/10", "21/10")]
    assert [each.id for each in Account.of_log(made).counted] == [made[0].id, made[2].id]


def test_a_budget_that_is_lowered_later_takes_no_debit_back() -> None:
    made = [debit(1, "2", "4"), debit(2, "1", "2")]
    account = Account.of_log(made)
    assert [each.id for each in account.counted] == [made[0].id]
    assert account.spent() > Fraction(19, 10)


def test_noise_that_protects_nothing_fits_no_budget() -> None:
    weak = Debit("0" * 32, 2**31 - 1, Fraction(4), 10, Fraction(1), DELTA, Fraction(1000), 0)
    assert not Account().holds(weak)
