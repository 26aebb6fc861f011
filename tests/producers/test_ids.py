"""An id is its bytes; the name that a person types into a device has one form."""

from __future__ import annotations

import csv
import sys
import unicodedata
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.audit.configuration import items_in
from murmurec import Device
from producers.catalogue_reader import entries
from producers.daemon.sources.source import parse
from producers.datasets.columns import Description
from producers.datasets.load import load
from producers.device.requests import item_keys
from producers.device.scope import ordered_items
from producers.fleet.population import populate
from producers.journal import BudgetExhausted
from producers.pseudonyms import normalised, pseudonym
from stream_app import wire
from stream_app.cli.device.publish import _item as published_item
from stream_app.wire import CatalogueEntry
from tests.fixtures.awkward_ids import LONG_USERS, PAIRS, REFUSED
from tests.producers.conftest import dataset

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
def test_what_shows_nothing_makes_no_other_name(text: str, hidden: str, place: int) -> None:
    assert normalised(text[:place] + hidden + text[place:]) == normalised(text)


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
def test_spellings_of_one_name_have_one_form(text: str, before: str, after: str, form: str) -> None:
    assert normalised(before + unicodedata.normalize(form, text) + after) == normalised(text)


@given(st.integers(0, 2**63 - 1), st.integers(0, 5))
def test_a_number_is_the_same_name_with_zeros_before_it(number: int, zeros: int) -> None:
    assert normalised("0" * zeros + str(number)) == str(number)


IDS = [each for pair in PAIRS for each in pair]


@pytest.mark.parametrize("mine", [PAIRS, LONG_USERS], ids=["PAIRS", "LONG_USERS"])
def test_two_ids_are_two_users_and_two_items(mine: list[tuple[str, str]]) -> None:
    assert len(PAIRS) >= 200
    ids = {each for pair in mine for each in pair}
    assert len({pseudonym(KEY, each) for each in ids}) == len(ids)
    if mine is PAIRS:
        assert len(set(item_keys(list(ids)).tolist())) == len(ids)
        assert [str(wire.parse_item(each)) for each in ids] == list(ids)


@pytest.mark.parametrize("text", REFUSED, ids=ascii)
def test_what_is_no_id_is_no_user_and_no_item(text: str) -> None:
    with pytest.raises(ValueError, match="user"):
        pseudonym(KEY, text)
    with pytest.raises(ValueError, match="item"):
        wire.key(text)


def test_a_file_of_ids_gives_every_user_and_item_back(tmp_path: Path) -> None:
    file, ids = tmp_path / "ratings.csv", sorted(set(IDS))
    with file.open("w", encoding="utf-8", newline="") as lines:
        writer = csv.writer(lines)
        writer.writerow(("user", "item", "rating"))
        writer.writerows((each, each, 1 + n % 5) for n, each in enumerate(ids))
    found = load(file)
    assert found.users.tolist() == found.items.tolist() == ids
    people = populate(found, KEY)
    assert len(people.devices) == len(set(people.items.tolist())) == len(ids)
    assert set(people.items.tolist()) == {wire.key(each) for each in ids}
    assert {wire.key(published_item(each)) for each in ids} == set(people.items.tolist())


def test_lines_of_ids_and_of_ratings_name_every_item_that_fits_a_line(tmp_path: Path) -> None:
    file = tmp_path / "scope.txt"
    ids = [each for each in dict.fromkeys(IDS) if not set("\r\n") & set(each)]
    ids = [each for each in ids if not each.startswith("\ufeff")]  # of the file, in the first line
    file.write_bytes("\n".join(ids).encode())
    assert [str(each) for each in ordered_items(file, file.read_bytes())] == ids
    assert set(items_in(file).tolist()) == {wire.key(each) for each in ids}
    for each in IDS:
        line = msgspec.json.encode({"user": each, "item": each, "rating": 3})
        row = parse(line, named=True)
        assert row is not None
        assert (row.user, str(row.item)) == (each, each)


def test_the_number_and_its_decimal_text_are_one_item_everywhere() -> None:
    assert CatalogueEntry("5") == CatalogueEntry(5)
    assert wire.key("5") == wire.key(5)
    assert [each.item for each in entries([5, "5", "05"], {5: Description("Five")})] == [5, "05"]


def test_another_spelling_of_a_typed_name_is_no_fresh_budget(tmp_path: Path) -> None:
    with Device("Ann1", tmp_path / "j", epsilon=2).enrol(2, delta=0) as device:
        device.rate("alien", 5)
        name = device.pseudonym
    for item, user in enumerate(("Ann1 ", "Ann\u200b1", "Ann\u0661")):
        with Device(user, tmp_path / "j", epsilon=2) as device:
            assert device.pseudonym == name
            with pytest.raises(BudgetExhausted):
                device.rate(item, 5)
    with Device("007", tmp_path / "j") as device:
        assert device.user == "7"


def test_two_ids_that_look_alike_in_one_file_are_two_users_and_two_cells() -> None:
    data = dataset(["ann", "ann ", "bob"], ["heat", " heat", "007"], [3.0, 4.0, 5.0])
    population = populate(data, KEY)
    assert population.devices == tuple(pseudonym(KEY, user) for user in ("ann", "ann ", "bob"))
    assert population.users.tolist() == [0, 1, 2]
    assert population.items.tolist() == [wire.key(item) for item in ("heat", " heat", "007")]
    assert population.fresh.all()
