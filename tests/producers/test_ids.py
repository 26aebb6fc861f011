"""One form of an id: another spelling is no other user with another budget, and no other item."""

from __future__ import annotations

import sys
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
     ("0x10", "0x10"), ("-07", "-07"), ("\u0663", "3"),
     ("\u0660\u06f1\u096b", "15"), ("room \u0967\u0966", "room 10"), ("\U0001d7d8\U0001d7d5", "7"),
     ("Ann\u200b", "Ann"), ("\ufeffAnn", "Ann"), ("A\u00adn\u2060n", "Ann"), ("0\u200d7", "7"),
     ("Ann \u200b Lee", "Ann Lee"), ("a\u200c\u030a", "\u00e5"), ("\u2764\ufe0f", "\u2764"),
     ("a\u0323\u034f\u0302", "\u1ead"), ("An\x08n\x7f", "Ann"), ("Ann\U000e0041", "Ann"),
     ("\uffa0Ann\u3164", "Ann"), ("\u200b", ""),
     ("\u0410nn", "\u0410nn"), ("ANN", "ANN"), ("\u738b\u3000\u82b3", "\u738b \u82b3")],
    ids=ascii,
)  # fmt: skip
def test_an_id_has_one_form(written: str, form: str) -> None:
    assert normalised(written) == form


@given(TEXT)
def test_the_form_of_a_form_is_itself(text: str) -> None:
    assert normalised(normalised(text)) == normalised(text)


HIDDEN = st.text("\u200b\u200d\ufeff\u00ad\u2060\ufe0f\u180e\x08", max_size=3)


@given(TEXT, HIDDEN, st.integers(0, 20))
def test_what_shows_nothing_makes_no_other_user_and_no_other_item(
    text: str, hidden: str, place: int
) -> None:
    if not normalised(text) or "\0" in text:
        return
    spelt = text[:place] + hidden + text[place:]
    assert pseudonym(KEY, spelt) == pseudonym(KEY, text)
    assert item_keys([spelt]) == item_keys([text])


def test_the_digits_of_every_script_are_those_of_ascii() -> None:
    digits = [chr(code) for code in range(sys.maxunicode + 1) if chr(code).isdecimal()]
    assert len(digits) >= 650
    for digit in digits:
        assert normalised(f"1{digit}") == f"1{unicodedata.decimal(digit)}"


def test_every_character_has_a_form_that_is_its_own_form() -> None:
    for code in range(sys.maxunicode + 1):
        form = normalised(f"x{chr(code)}y")
        assert normalised(form) == form, hex(code)
        if unicodedata.category(chr(code)) == "Cf":
            assert form == "xy", hex(code)


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
        for item, user in enumerate(("Ann1", "Ann1 ", "Ann\u200b1", "Ann\u0661")):
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
