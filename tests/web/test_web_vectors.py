"""The browser computes what Python computes: the shared vectors, in a real Chromium."""

from __future__ import annotations

import json
import re

import pytest

from tests.fixtures.awkward_ids import PAIRS
from tests.fixtures.browser import serving
from tests.web import web_vectors

WEB = web_vectors.PATH.parent
MODULES = {  # most lines
    **{"campaigning.js": 205, "device.js": 235, "privacy.js": 105, "ranking.js": 125},
    **{"epoch_reports.js": 120, "epochs.js": 120, "relay.js": 130, "tag.js": 30},
}
LOAD = """async () => {
  const from = (path) => fetch(path).then((reply) => reply.json());
  globalThis.device = await import("/device.js");
  globalThis.ranking = await import("/ranking.js");
  globalThis.items = await import("/campaign/item.js");
  globalThis.vectors = await from("/vectors.json");
}"""


@pytest.fixture(scope="module")
def modules(browser):
    with serving(WEB) as site, browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{site}/vectors.json")
        page.evaluate(LOAD)
        yield page


def same(stored: object, now: object) -> bool:
    """Return whether both are equal, numbers up to the roundings of another machine."""
    if isinstance(stored, float) and isinstance(now, float):
        return stored == pytest.approx(now, rel=1e-6, abs=1e-6)
    if isinstance(stored, list) and isinstance(now, list):
        return len(stored) == len(now) and all(map(same, stored, now))
    if isinstance(stored, dict) and isinstance(now, dict):
        return stored.keys() == now.keys() and all(same(stored[name], now[name]) for name in now)
    return stored == now


def test_the_vectors_are_current() -> None:
    assert same(json.loads(web_vectors.PATH.read_text()), json.loads(web_vectors.text())), (
        "run python -m tests.web.web_vectors and commit deploy/web/vectors.json"
    )


def test_every_word_draws_the_report_of_the_python_table(modules) -> None:
    wrong = modules.evaluate("""() => vectors.tables.flatMap((table) => {
      const { counts } = device.certified(table);
      return table.draws.filter(([level, word, report]) =>
        device.sample(counts, level, BigInt(word)) !== report);
    })""")
    assert wrong == []


def test_pseudonyms_and_event_bytes_are_those_of_python(modules) -> None:
    named = modules.evaluate("""() => Promise.all(vectors.pseudonyms.map(([key, user]) =>
      device.pseudonym(Uint8Array.from(key.match(/../g), (b) => parseInt(b, 16)), user)))""")
    stored = json.loads(web_vectors.PATH.read_text())
    assert named == [each[2] for each in stored["pseudonyms"]]
    bodies = modules.evaluate("() => vectors.events.map(device.eventBody)")
    assert [body.encode().hex() for body in bodies] == [e["body"] for e in stored["events"]]


def test_every_awkward_id_has_the_key_and_pseudonym_of_python_and_comes_back(modules) -> None:
    found = modules.evaluate("""() => Promise.all(vectors.ids.map(async ([id]) => {
      const key = items.keyOf(id), sent = device.itemText({ item: id, key });
      return [JSON.parse(sent) === id || sent === id ? id : sent, key,
        await device.pseudonym(new Uint8Array(32), id)];
    }))""")
    stored = json.loads(web_vectors.PATH.read_text())["ids"]
    assert found == stored
    assert {id_ for id_, _, _ in stored} == {id_ for pair in PAIRS for id_ in pair}
    assert len({key for _, key, _ in stored}) == len({name for _, _, name in stored}) == len(stored)


def test_an_integer_is_its_decimal_text_and_what_lost_digits_is_refused(modules) -> None:
    same = """() => [7n, 7, 2n ** 53n + 1n, 2n ** 63n - 1n].map((n) =>
      [n, String(n)].map(items.keyOf))"""
    assert modules.evaluate(same) == [[f"{n:016x}"] * 2 for n in (7, 7, 2**53 + 1, 2**63 - 1)]
    refused = """(texts) => [...texts, 2 ** 53, 2n ** 63n, -1, 1.5].filter((item) => {
      try { items.keyOf(item); return true; } catch { return false; }
    })"""
    texts = ["", "\0", "Ann\0", "a" * 129, "\u00eb" * 65]
    assert modules.evaluate(refused, texts) == []
    assert (
        modules.evaluate("""() => ["\\ud800", "a\\udfff"].filter((item) => {
      try { items.keyOf(item); return true; } catch { return false; }
    })""")
        == []
    )


def test_a_person_costs_what_the_odometer_in_python_says(modules) -> None:
    found = modules.evaluate("""() => vectors.whole_person.map(({ levels, table, epsilons }) => {
      const counts = Array.from({ length: levels }, (_, v) =>
        Array.from({ length: levels }, (_, z) => BigInt(table[Number(v !== z)])));
      return [device.room(counts, { epsilon: 20, delta: 1e-6 }),
        epsilons.map(([n]) => device.wholePerson(counts, n, 1e-6))];
    })""")
    stored = json.loads(web_vectors.PATH.read_text())["whole_person"]
    assert {each["id"]: each["held"] for each in stored}["rr:5:2"] == 10
    assert {each["id"]: each["held"] for each in stored}["rr:5:1/2"] == 93
    for each, (held, epsilons) in zip(stored, found, strict=True):
        assert held == each["held"], each["id"]
        for (n, shown), computed in zip(each["epsilons"], epsilons, strict=True):
            assert computed == pytest.approx(shown, rel=1e-9), (each["id"], n)


def test_lists_reasons_and_tastes_are_those_of_the_device_in_python(modules) -> None:
    found = modules.evaluate("""() => {
      return vectors.ranking.flatMap(({ side: text, cases }) => {
        const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
        const side = ranking.decodeSide(bytes.buffer);
        return cases.map(({ history, now }) => ({
          list: ranking.rank(side, history, 10, [], now),
          taste: [...ranking.taste(side, history)] }));
      });
    }""")
    ranking = json.loads(web_vectors.PATH.read_text())["ranking"]
    stored = [case for side in ranking for case in side["cases"]]
    for here, stated in zip(found, stored, strict=True):
        for name in ("key", "because"):
            assert [e[name] for e in here["list"]] == [e[name] for e in stated["list"]]
        scores = [e["score"] for e in stated["list"]]
        assert [e["score"] for e in here["list"]] == pytest.approx(scores, rel=1e-5, abs=2e-5)
        assert here["taste"] == pytest.approx(stated["taste"], abs=1e-5)


def test_the_modules_are_short_enough_to_be_read() -> None:
    for name, most in MODULES.items():
        lines = (WEB / name).read_text().splitlines()
        assert len(lines) <= most, name
        assert max(map(len, lines)) <= 100, name


def test_the_modules_load_only_each_other_and_name_no_host() -> None:
    kernel = {f"./campaign/{each.name}" for each in (WEB / "campaign").iterdir()}
    for name in MODULES:
        code = (WEB / name).read_text()
        known = {f"./{other}" for other in MODULES} | kernel
        assert set(re.findall(r"from \"(.*?)\"", code)) <= known
        assert not re.search(r"import\(|https?://|\beval\b|innerHTML|Math\.random", code)
