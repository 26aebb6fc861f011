"""One form of an id: another spelling is no other user with another budget, and no other item."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from producers.device.requests import item_keys
from producers.fleet.population import populate
from producers.ids import item_of, normalised
from producers.journal import BudgetExhausted
from producers.pseudonyms import pseudonym
from stream_app import wire
from tests.producers.conftest import dataset
from tests.producers.journals import RR, at, release

KEY = bytes(range(32))
TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
SPACE = st.text(" \t\n\u00a0\u2003\u3000", max_size=3)


@pytest.mark.parametrize(
    ("written", "form"),
    [("Ann ", "Ann"), (" Ann\tLee\n", "Ann Lee"), ("007", "7"), ("000", "0"), ("ann", "ann"),
     ("\uff11\uff12", "12"), ("A\u030angstr\u00f6m", "\u00c5ngstr\u00f6m"), ("\ufb01lm", "film"),
     ("0x10", "0x10"), ("-07", "-07"), ("\u0663", "\u0663"),
     ("\u738b\u3000\u82b3", "\u738b \u82b3")],
    ids=ascii,
)  # fmt: skip
def test_an_id_has_one_form(written: str, form: str) -> None:
    assert normalised(written) == form


@given(TEXT)
def test_the_form_of_a_form_is_itself(text: str) -> None:
    assert normalised(normalised(text)) == normalised(text)


@given(TEXT, SPACE, SPACE, st.sampled_from(["NFC", "NFD", "NFKC", "NFKD"]))
def test_spellings_of_one_id_are_one_user_and_one_item(
    text: str, before: str, after: str, form: str
) -> None:
    if not normalised(text) or "\0" in text:
        return
    spelt = before + unicodedata.normalize(form, text) + after
    assert pseudonym(KEY, spelt) == pseudonym(KEY, text)
    assert item_keys([spelt]) == item_keys([text])


@given(st.integers(0, 2**63 - 1), st.integers(0, 5))
def test_a_number_is_the_same_with_zeros_before_it(number: int, zeros: int) -> None:
    text = "0" * zeros + str(number)
    assert pseudonym(KEY, text) == pseudonym(KEY, number)
    assert item_keys([text]).tolist() == [number]
    assert item_of(text) == number


def test_another_spelling_is_no_fresh_budget(tmp_path: Path) -> None:
    with at(tmp_path / "j", epsilon=2) as journal:
        for item, user in enumerate(("Ann", "Ann ", " Ann")):
            device = pseudonym(journal.key, user)
            if not item:
                release(journal, device, 1, mechanism=RR)
                continue
            with pytest.raises(BudgetExhausted):
                release(journal, device, item + 1, mechanism=RR)


def test_two_spellings_in_one_file_are_one_user_and_one_cell() -> None:
    data = dataset(["ann", "ann ", "bob"], ["heat", " heat", "007"], [3.0, 4.0, 5.0])
    population = populate(data, KEY)
    assert population.devices == (pseudonym(KEY, "ann"), pseudonym(KEY, "bob"))
    assert population.users.tolist() == [0, 0, 1]
    assert population.items.tolist() == [wire.key("heat")] * 2 + [7]
    assert population.fresh.tolist() == [True, False, True]
    assert np.isin(population.items, [wire.key(" heat")]).sum() == 0
