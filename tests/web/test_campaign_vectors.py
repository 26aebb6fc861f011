"""The browser's contribution is that of Python, bit for bit, in a real Chromium."""

from __future__ import annotations

import base64
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import pytest

from stream_app.campaigns.planning import certificate
from stream_app.campaigns.sealing import check_box
from stream_app.campaigns.verified import field, norm_proof, rows
from stream_app.campaigns.verified.layout import AUX
from stream_app.campaigns.verified.transcript import Transcript, commitment
from stream_app.wire.campaigns.contribution import decode_contribution
from stream_app.wire.campaigns.plan import Campaign
from stream_app.wire.ids import key
from tests.fixtures.browser import serving
from tests.stream_app.aggregation.world import keys_of
from tests.web import campaign_inputs
from tests.web.test_web_vectors import WEB

DEVICE, SECRET = bytes(range(16)), bytes(range(32, 64))
PARTIES = keys_of(2)
KEYS = tuple(each.public.hex() for each in PARTIES)
MODULES = {  # most lines
    **{
        "contribution.js": 20,
        "features.js": 76,
        "field.js": 40,
        "item.js": 30,
        "norm_proof.js": 175,
    },
    **{
        "messagepack.js": 40,
        "plan.js": 30,
        "sealing.js": 95,
        "terms.js": 80,
        "transcript.js": 80,
    },
    **{"vectors.js": 70},
}
LOAD = """async () => {
  for (const name of ["field", "transcript", "norm_proof", "plan", "terms", "vectors", "sealing",
    "contribution"]) globalThis[name] = await import(`/campaign/${name}.js`);
  globalThis.hex = plan.hexOf;
  globalThis.bytes = sealing.bytesOf;
  globalThis.of64 = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  globalThis.to64 = (found) => btoa(Array.from(found, (b) => String.fromCharCode(b)).join(""));
}"""


@pytest.fixture(scope="module")
def modules(browser):
    with serving(WEB) as site, browser.new_context() as context:
        page = context.new_page()
        page.goto(f"{site}/vectors.json")
        page.evaluate(LOAD)
        yield page


@pytest.fixture(scope="module")
def small() -> Campaign:
    return campaign_inputs.campaign(40, KEYS)


def test_the_field_is_that_of_python(modules) -> None:
    rng = np.random.default_rng(1)
    edges = [0, 1, 2**24 - 1, 2**24, 2**47, field.P - 1, field.P - 2, field.P - 2**24]
    numbers = edges + [int(each) for each in rng.integers(0, field.P, 50)]
    pairs = [(a, b) for a in numbers for b in numbers]
    found = modules.evaluate(
        "(pairs) => pairs.map(([a, b]) => [field.add(a, b), field.sub(a, b), field.mul(a, b)])",
        pairs,
    )
    p = field.P
    assert found == [[(a + b) % p, (a - b) % p, a * b % p] for a, b in pairs]


def test_words_commitments_and_challenges_are_those_of_python(modules) -> None:
    found = modules.evaluate("""() => {
      const { uniform, commitment, Transcript } = transcript;
      const next = uniform(bytes("07".repeat(32)));
      const made = commitment(new Uint8Array(32).fill(1), 258, bytes("0102"));
      const state = new Transcript(bytes("aa"), made, made);
      state.absorb(made);
      return { words: Array.from({ length: 8200 }, next), made: hex(made), state: hex(state.state),
        rows: hex(state.rows().next().value.slice(0, 640)), points: state.challenges(19) };
    }""")
    made = commitment(b"\1" * 32, 258, b"\1\2")
    state = Transcript(b"\xaa", made, made)
    state.absorb(made)
    assert found == {
        "words": norm_proof.expanded(b"\7" * 32, 8200).tolist(),
        "made": made.hex(),
        "state": state.state.hex(),
        "rows": state.bits(rows.row_bytes(20)).hex(),
        "points": state.challenges(19).T.tolist(),
    }


# One integer; two; those around a power of two with what is beside them; a whole stage.
@pytest.mark.parametrize(
    "size",
    [
        *(1, 2, 2**11 - AUX, 2**11 - AUX + 1, 12_000),
        pytest.param(45_000, marks=pytest.mark.thorough),
    ],
)
def test_a_proof_is_that_of_python(modules, size: int) -> None:
    rng = np.random.default_rng(size)
    vector = np.zeros(size, np.int64)
    vector[rng.integers(0, size, 2000)] = rng.integers(-40, 40, 2000)
    bound = int(np.ceil(np.sqrt(np.square(vector).sum()))) or 1
    seed, blind = rng.bytes(32), rng.bytes(32)
    found = modules.evaluate(
        """async ({ size, bound, vector, seed, blind }) => (await norm_proof.prove(
          { context: bytes("c0ffee"), size, bound }, Int32Array.from(vector), bytes(seed),
          bytes(blind))).map(to64)""",
        {"size": size, "bound": bound, "vector": vector.tolist()}
        | {"seed": seed.hex(), "blind": blind.hex()},
    )
    statement = norm_proof.Statement(b"\xc0\xff\xee", size, bound)
    made = norm_proof.prove(statement, vector, seed, blind)
    assert tuple(map(base64.b64decode, found)) == made


def test_the_vector_of_a_stage_is_that_of_python(modules) -> None:
    made = campaign_inputs.campaign(120, KEYS)
    all_cases = list(campaign_inputs.cases(made))
    found = modules.evaluate(
        """([text, cases]) => {
          const planned = plan.decodePlan(of64(text));
          return cases.map((each) =>
            Array.from(vectors.vectorOf(planned, each.stage, each.rated)));
        }""",
        [campaign_inputs.plan_text(made), [each.told() for each in all_cases]],
    )
    for case, vector in zip(all_cases, found, strict=True):
        where = made.stages[case.index].kind, len(case.rated)
        assert vector == case.vector.tolist(), where
    full = [case for case in all_cases if len(case.rated) == len(made.scope)]
    assert all(case.vector.any() for case in full)


def test_a_plan_is_read_from_the_bytes_of_its_digest(modules, small: Campaign) -> None:
    found = modules.evaluate(
        """(text) => {
          const { digest, number, scope_keys, keys, stages } = plan.decodePlan(of64(text));
          return { digest, number, scope_keys, keys, stages };
        }""",
        campaign_inputs.plan_text(small),
    )
    fields = msgspec.to_builtins(small.stages, enc_hook=str)
    assert found["digest"] == small.digest.hex()
    assert int(found["number"]) == small.number
    assert found["scope_keys"] == [f"{key(item):016x}" for item in small.scope]
    assert found["keys"] == list(KEYS)
    assert found["stages"] == [dict(each) for each in fields]


def test_an_integer_of_the_scope_that_is_text_makes_no_plan(modules, small: Campaign) -> None:
    with pytest.raises(ValueError, match="an integer of the scope is text; write the number"):
        msgspec.structs.replace(small, scope=("7", "07"))
    forged = base64.b64decode(campaign_inputs.plan_text(small)).replace(b",7,", b',"7",')
    sentence = modules.evaluate(
        "(text) => { try { plan.decodePlan(of64(text)); } catch (e) { return e.message; } }",
        base64.b64encode(forged).decode(),
    )
    assert sentence == "an integer of a plan's scope is text"


CONTRIBUTE = """async ({ text, stage, rated, device, secret }) => {
  const planned = plan.decodePlan(of64(text));
  const { body } = await contribution.contribution({ plan: planned, stage, device, rated,
    secret: bytes(secret) });
  return to64(body);
}"""


def contributed(modules, made: Campaign, case: campaign_inputs.Case, **changes: Any) -> bytes:
    given = {"text": campaign_inputs.plan_text(made), "device": DEVICE.hex()} | case.told()
    return base64.b64decode(
        modules.evaluate(CONTRIBUTE, given | {"secret": SECRET.hex()} | changes)
    )


def test_a_contribution_is_that_of_python_and_both_parties_accept_it(
    modules, small: Campaign
) -> None:
    for case in campaign_inputs.cases(small):
        if len(case.rated) not in (0, 9):
            continue
        found = contributed(modules, small, case)
        args = small, case.index, DEVICE, case.vector, SECRET
        assert found == campaign_inputs.body(*args)
        opened = decode_contribution(DEVICE.hex().encode(), found, 0, 1)
        checked = [
            check_box(small, opened, party, keys.public, keys.secret)
            for party, keys in enumerate(PARTIES)
        ]
        assert norm_proof.accepted(*(each.message for each in checked)).all()
        shares = field.centered(field.add(*(each.share for each in checked)))
        assert shares.tolist() == case.vector.tolist()


def test_one_party_reads_the_vector(modules) -> None:
    keys = keys_of(1)
    made = campaign_inputs.campaign(20, (keys[0].public.hex(),))
    case = next(each for each in campaign_inputs.cases(made) if each.vector.any())
    found = contributed(modules, made, case)
    assert found == campaign_inputs.body(made, case.index, DEVICE, case.vector, SECRET)


def test_the_same_rating_gives_the_same_bytes_and_another_one_nothing_in_common(
    modules, small: Campaign
) -> None:
    case = next(each for each in campaign_inputs.cases(small) if len(each.rated) == 9)
    liked = case._replace(rated=[(item, 4) for item, _ in case.rated])
    other = case._replace(rated=[(item, 4) for item, _ in case.rated[1:]])
    assert contributed(modules, small, liked) == contributed(modules, small, liked)
    opened = [
        decode_contribution(DEVICE.hex().encode(), contributed(modules, small, each), 0, 1)
        for each in (liked, other)
    ]
    shares = [check_box(small, each, 1, PARTIES[1].public, PARTIES[1].secret) for each in opened]
    assert not (shares[0].share == shares[1].share).any()  # with one seed, equal but at few places


@pytest.mark.parametrize(("more", "passes"), [(0, True), (1, False)])
def test_a_vector_at_the_bound_passes_and_one_beyond_does_not(
    modules, small: Campaign, more: int, passes: bool
) -> None:
    vector = [0] * small.stages[0].size
    vector[3] = -(small.stages[0].bound + more)
    made = """async ([text, vector, device, secret]) => to64(await sealing.sealed({
      plan: plan.decodePlan(of64(text)), stage: 0, device, vector: Int32Array.from(vector),
      secret: bytes(secret) }))"""
    given = [campaign_inputs.plan_text(small), vector, DEVICE.hex(), SECRET.hex()]
    if not passes:
        with pytest.raises(Exception, match="within the bound"):
            modules.evaluate(made, given)
        return
    body = base64.b64decode(modules.evaluate(made, given))
    opened = decode_contribution(DEVICE.hex().encode(), body, 0, 1)
    checked = [
        check_box(small, opened, party, keys.public, keys.secret)
        for party, keys in enumerate(PARTIES)
    ]
    assert norm_proof.accepted(*(each.message for each in checked)).all()


def test_parties_refuse_a_proof_of_a_vector_beyond_the_bound(modules) -> None:
    made = """async ([vector, bound]) => (await norm_proof.prove({ context: bytes("00"),
      size: vector.length, bound }, Int32Array.from(vector), bytes("01".repeat(32)),
      bytes("02".repeat(32)))).map(to64)"""
    for bound, passes in ((5, True), (4, False)):
        payloads = map(base64.b64decode, modules.evaluate(made, [[3, 0, -4], bound]))
        statement = norm_proof.Statement(b"\0", 3, bound)
        checked = [norm_proof.check(statement, n, each) for n, each in enumerate(payloads)]
        found = norm_proof.accepted(*(each.message for each in checked))
        assert found.tolist() == [passes]


# --- the terms ------------------------------------------------------------------------------------

CHECK = """([text, pinned, changes]) => {
  const planned = plan.decodePlan(of64(text));
  for (const [place, value] of changes) {
    const last = place.pop();
    place.reduce((part, name) => part[name], planned)[last] = value;
  }
  try { terms.check(planned, pinned); return null; } catch (problem) { return problem.message; }
}"""


def pinned(made: Campaign, **changes: Any) -> dict[str, Any]:
    items = [f"{key(item):016x}" for item in made.scope]
    return {"keys": list(made.keys), "items": items} | changes


def test_the_terms_of_a_plan_are_accepted_and_bad_ones_are_not(modules, small: Campaign) -> None:
    text, right = campaign_inputs.plan_text(small), pinned(small)
    items = right["items"]
    assert modules.evaluate(CHECK, [text, right, []]) is None
    table: list[tuple[str, dict[str, Any], list[Any]]] = [
        ("names the keys", pinned(small, keys=list(KEYS[::-1])), []),
        ("names the keys", pinned(small, keys=[]), []),
        ("names the keys", right, [[["parties"], 1], [["keys"], [",".join(KEYS)]]]),
        ("names the keys", right, [[["parties"], 1]]),
        ("over 40 items", pinned(small, items=items[:-1]), []),
        ("item 1 is", pinned(small, items=[*items[1::-1], *items[2:]]), []),
        ("states epsilon 1, and", pinned(small, most_epsilon=0.5), []),
        ("states epsilon 100", right, [[["epsilon"], "100"]]),
        ("protects nothing", pinned(small, most_epsilon=100), [[["epsilon"], "100"]]),
        ("costs more than the epsilon 1 ", right, [[["stages", 0, "variance"], 2**24]]),
        ("costs more than the epsilon 0.99 ", right, [[["epsilon"], "99/100"]]),
        (
            "costs more than epsilon 2 ",
            right,
            [
                [["delta"], "999/1000"],
                [["stages", 0, "bound"], 2048],
                [["stages", 0, "variance"], 2048**2],
            ],
        ),
        ("of no kind", right, [[["stages", 0, "kind"], "moments"]]),
        ("of 210 integers, bound 2049", right, [[["stages", 0, "bound"], 2049]]),
        ("noise 3", right, [[["stages", 0, "variance"], 3]]),
        ("no number of items", right, [[["stages", 0, "size"], 211]]),
        ("no number of items", right, [[["stages", 0, "size"], 861]]),
    ]
    for sentence, given, changes in table:
        found = modules.evaluate(CHECK, [text, given, changes])
        assert found is not None, sentence
        assert sentence in found
        assert found.endswith("nothing was contributed")


def test_the_cost_of_a_plan_is_that_of_the_certificate(modules, small: Campaign) -> None:
    exact, points = certificate(small.stages), [Fraction(n, 4) for n in (0, 1, 2, 4, 8, 12)]
    stages = msgspec.to_builtins(small.stages, enc_hook=str)
    found = modules.evaluate(
        """([stages, points]) => points.map((epsilon) =>
          terms.deltaOf(terms.costOf(stages), epsilon))""",
        [stages, [float(each) for each in points]],
    )
    for point, delta in zip(points, found, strict=True):
        proved = float(exact.delta(point))
        assert proved <= delta <= proved * (1 + 1e-8), point


# --- the modules ----------------------------------------------------------------------------------


def test_the_modules_are_short_and_load_only_each_other_and_the_library() -> None:
    folder = WEB / "campaign"
    assert {each.name for each in folder.iterdir()} == MODULES.keys()
    known = {f"./{name}" for name in MODULES} | {"../vendor/noble.js"}
    for name, most in MODULES.items():
        code = (folder / name).read_text()
        lines = code.splitlines()
        assert len(lines) <= most, (name, len(lines))
        assert max(map(len, lines)) <= 100, name
        assert set(imported(code)) <= known, name
        for word in ("import(", "http://", "https://", "eval", "innerHTML", "Math.random"):
            assert word not in code, (name, word)


def imported(code: str) -> list[str]:
    return [
        line.split('from "')[1].split('"')[0] for line in code.splitlines() if ' from "' in line
    ]
