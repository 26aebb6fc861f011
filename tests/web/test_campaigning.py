"""The browser takes part in campaigns: once a stage, paid for before, the same bytes until they are
confirmed; in a real Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from hashlib import blake2b
from typing import Any

import msgspec
import numpy as np
import pytest

from producers.fleet.epoch_emission import emission_time
from producers.person import pace
from producers.person.enrolment import ADAPTIVE, PersonBudget
from producers.person.plans import mechanism_of
from producers.person.reports import held
from producers.ranking import RatedItem
from stream_app import wire
from stream_app.campaigns.planning import certificate
from stream_app.campaigns.sealing import check_box
from stream_app.campaigns.verified import field
from stream_app.privacy.accounting.odometer import odometer
from stream_app.privacy.gaussian import naming
from stream_app.privacy.gaussian.certificate import CampaignCertificate
from stream_app.wire.campaigns.contribution import Contribution, decode_value
from stream_app.wire.campaigns.plan import Campaign
from tests.fixtures.campaigns import vector_of
from tests.fixtures.waiting import until
from tests.stream_app.aggregation.world import keys_of
from tests.web import campaign_inputs
from tests.web.small_gateway import IDS, SmallGateway, described, small_gateway
from tests.web.test_device import OPEN, RATE, placed

PARTIES = keys_of(2)
KEYS = tuple(each.public.hex() for each in PARTIES)
TAKE_PART = """async (on) => {
  const { Campaigning } = await import("/web/campaigning.js");
  globalThis.part = await Campaigning.open(device);
  part.close();
  if (on) await part.takePart(true);
  return part.state;
}"""
LOOK = "async () => { await part.look(); return part.state.problem; }"


@pytest.fixture(scope="module")
def campaign() -> Campaign:
    return campaign_inputs.campaign(40, KEYS)


@pytest.fixture
def gateway(campaign: Campaign) -> Iterator[SmallGateway]:
    with small_gateway() as found:
        found.pin(campaign)
        yield found


def opened(page: Any, gateway: SmallGateway, *, on: bool = True, **options: object) -> Any:
    """Open the page with its device and its part in campaigns."""
    page.goto(gateway.address)
    assert page.evaluate(OPEN, options) is None
    page.evaluate(TAKE_PART, on)
    return page


def rate(page: Any, campaign: Campaign, levels: tuple[int, ...]) -> list[RatedItem]:
    """Rate the first items of the scope that JavaScript can name; return what Python takes."""
    items = [item for item in campaign.scope if isinstance(item, int) and item < 2**53][:2]
    items += [item for item in campaign.scope if isinstance(item, str)]
    chosen = list(zip(items, levels, strict=False))
    for item, level in chosen:
        given = {"item": item, "key": f"{wire.key(item):016x}", "level": level}
        assert page.evaluate(RATE, given)["level"] == level
    placed(page, len(chosen))
    return [RatedItem(item, wire.key(item), float(level + 1)) for item, level in chosen]


def moment_name(page: Any) -> bytes:
    """Return the name by which the device of a page has its moments."""
    key = bytes(page.evaluate("device.all().then((all) => [...all.device.key])"))
    return blake2b(key=key, digest_size=16, person=b"murmurec moment").digest()


def vector(campaign: Campaign, body: bytes) -> tuple[Contribution, np.ndarray]:
    """Return a contribution and what both parties hold together, whose proofs they accept."""
    made = decode_value(body)
    shares = []
    for party, each in enumerate(PARTIES):
        checked = check_box(campaign, made, party, each.public, each.secret)
        assert checked is not None
        shares.append(checked.share)
    return made, field.centered(field.add(*shares))


def test_a_stage_gets_one_contribution_of_the_ratings_of_this_browser(
    page, gateway, campaign
) -> None:
    opened(page, gateway)
    rated = rate(page, campaign, (4, 0, 3, 4))
    before = page.evaluate("device.spent()")
    for _ in range(2):
        assert page.evaluate(LOOK) is None
    (body,) = gateway.contributions
    made, found = vector(campaign, body)
    assert made.device.hex() == page.evaluate("device.pseudonym")
    assert np.array_equal(found, vector_of(campaign, rated))
    after = page.evaluate("device.spent()")
    assert before["epsilon"] < after["epsilon"] < before["epsilon"] + 1.5
    assert after["left"] < before["left"]
    assert page.evaluate("part.state.sent")
    gateway.stage = 1  # the whole campaign was paid
    assert page.evaluate(LOOK) is None
    assert page.evaluate("device.spent()") == after
    assert len(gateway.contributions) == 2


@pytest.mark.thorough
def test_a_kept_rating_on_more_levels_counts_as_a_whole_level(page, gateway, campaign) -> None:
    opened(page, gateway)
    rate(page, campaign, (0,))  # from now on the device has five levels
    item = next(each for each in campaign.scope[:20] if isinstance(each, str))
    kept = {"item": item, "key": f"{wire.key(item):016x}", "level": 6, "levels": 10}
    left = page.evaluate(
        "async (kept) => (await import('/web/keeping.js')).keep(device, [kept])", kept
    )
    assert left == 0
    assert page.evaluate(LOOK) is None
    _, found = vector(campaign, gateway.contributions[0])
    four = [RatedItem(item, wire.key(item), 4.0)]  # 6 of 0 .. 9 is 2.7 of 0 .. 4
    assert np.array_equal(found, vector_of(campaign, four))


_CHANGE = """async ([given, change]) => {
  const { keep } = await import("/web/keeping.js");
  await keep(device, [{ ...given, level: 4, levels: 5 }]);
  part.state = { ...part.state, campaign: null };
  const looking = part.look();
  while (!part.state.campaign) await new Promise((later) => setTimeout(later, 2));
  await keep(device, [change]); // what is contributed was read before
  await looking;
  return (await device.all()).campaigns.shares;
}"""


@pytest.mark.thorough
@pytest.mark.parametrize("is_forgotten", [True, False])
def test_a_rating_that_is_forgotten_while_the_part_is_made_stays_in_no_shown_shares(
    page, gateway, campaign, is_forgotten
) -> None:
    """And one that is new takes none away."""
    opened(page, gateway)
    item, other, *_ = (each for each in campaign.scope if isinstance(each, str))
    given, new = ({"item": each, "key": f"{wire.key(each):016x}"} for each in (item, other))
    change = given | {"level": None} if is_forgotten else new | {"level": 1, "levels": 5}
    assert (page.evaluate(_CHANGE, [given, change]) is None) is is_forgotten
    _, found = vector(campaign, gateway.contributions[0])
    assert found.any()
    kept = page.evaluate("device.all().then((all) => all.kept.map(({ key }) => key))")
    assert kept == ([] if is_forgotten else [given["key"], new["key"]])


@pytest.mark.thorough
def test_without_ratings_and_only_where_the_person_has_said_so_it_sends_zeros(
    page, gateway, campaign
) -> None:
    opened(page, gateway, on=False)
    assert page.evaluate(LOOK) is None
    assert gateway.contributions == []
    page.evaluate("part.takePart(true)")
    assert page.evaluate(LOOK) is None
    (body,) = gateway.contributions
    assert not vector(campaign, body)[1].any()


@pytest.mark.thorough
def test_it_looks_by_itself_at_the_moment_of_its_pseudonym(page, gateway) -> None:
    page.clock.install(time=1_800_000_000)
    page.goto(gateway.address)
    assert page.evaluate(OPEN, {}) is None
    page.evaluate(TAKE_PART.replace("part.close();", ""), True)
    wait = 60 * (1 + emission_time(moment_name(page), 30_000_001))
    page.clock.run_for(int(1000 * wait) - 15_000)  # it goes on by itself, too
    assert page.evaluate(LOOK.replace("part.look()", "device.all()")) is None
    assert gateway.contributions == []
    page.clock.run_for(30_000)

    def contributed() -> bool:
        page.clock.run_for(1000)
        return bool(gateway.contributions)

    until(contributed, "the device has contributed")


@pytest.mark.parametrize("lost", [0, 404, pytest.param(503, marks=pytest.mark.thorough)])
def test_after_a_reload_the_same_bytes_are_sent(page, gateway, lost) -> None:
    opened(page, gateway)
    gateway.answers = [lost] * 9  # a browser repeats some requests by itself
    assert page.evaluate(LOOK) is not None
    gateway.answers.clear()
    (body,) = set(gateway.contributions)
    count = len(gateway.contributions) + 1
    opened(page, gateway)
    assert gateway.contributions == [body] * count
    assert page.evaluate(LOOK) is None
    assert gateway.contributions == [body] * count


@pytest.mark.thorough
def test_two_tabs_contribute_once(page, gateway) -> None:
    opened(page, gateway)
    tab = opened(page.context.new_page(), gateway)
    for each in (page, tab):
        each.evaluate("() => { globalThis.looked = part.look(); }")
    for each in (page, tab):
        each.evaluate("looked")
        assert each.evaluate("part.state.problem") is None
    assert len(gateway.contributions) == 1


@pytest.mark.thorough
def test_cleared_storage_is_a_new_pseudonym(page, gateway) -> None:
    opened(page, gateway)
    page.evaluate(LOOK)
    page.evaluate("device.forgetMe()")
    opened(page, gateway)
    page.evaluate(LOOK)
    devices = {decode_value(body).device for body in gateway.contributions}
    assert len(devices) == len(gateway.contributions) == 2


@pytest.mark.thorough
def test_an_older_copy_of_the_storage_draws_nothing_once_the_gateway_has_said_so(
    page, gateway, campaign
) -> None:
    opened(page, gateway)
    assert page.evaluate(LOOK) is None
    page.evaluate("""device.change(async (records, about) => { about.delete("campaigns"); })""")
    rate(page, campaign, (4,))
    page.evaluate("part.takePart(true)")
    assert "older copy" in page.evaluate(LOOK)
    item = {"item": 77, "key": f"{77:016x}", "level": 3}
    assert "older copy" in page.evaluate(RATE, item)
    gateway.stage = 1
    assert "older copy" in page.evaluate(LOOK)
    assert len(gateway.contributions) == 2


def test_a_plan_with_other_keys_or_items_is_refused(page, gateway, campaign) -> None:
    others = tuple(each.public.hex() for each in keys_of(2))
    opened(page, gateway)
    gateway.campaign = msgspec.structs.replace(campaign, keys=others)
    assert "names the keys" in page.evaluate(LOOK)
    gateway.campaign = msgspec.structs.replace(campaign, scope=campaign.scope[::-1])
    assert "another one" in page.evaluate(LOOK)
    gateway.campaign = msgspec.structs.replace(campaign, signed=True)
    assert "a browser signs none" in page.evaluate(LOOK)
    gateway.campaign = campaign
    for notice in (None, 86_399.0):
        gateway.notice = notice
        assert "was not public for 24 h before it opened" in page.evaluate(LOOK)
    gateway.notice = 86_400.0
    for stage in ("0", [0], -1, 9):
        gateway.stage = stage  # type: ignore[assignment]
        assert "names no stage" in page.evaluate(LOOK)
    assert gateway.contributions == []
    assert page.evaluate("device.spent()")["epsilon"] == 0


def test_a_budget_or_a_pace_that_does_not_hold_the_campaign_refuses(
    page, gateway, campaign
) -> None:
    opened(page, gateway, budget={"epsilon": 0.9, "delta": 1e-6})
    assert f"does not hold campaign {campaign.number}" in page.evaluate(LOOK)
    assert gateway.contributions == []
    opened(page, gateway, budget={"epsilon": 3, "delta": 1e-6})
    assert page.evaluate(LOOK) is None
    gateway.campaign = msgspec.structs.replace(campaign, number=campaign.number + 1)
    assert "beyond the pace" in page.evaluate(LOOK)
    assert len(gateway.contributions) == 1


@pytest.mark.thorough
def test_where_the_page_pins_nothing_it_takes_no_part(page, gateway) -> None:
    del gateway.pages["/web/pinned.json"]
    page.goto(gateway.address)
    assert page.evaluate(OPEN, {}) is None
    found = """async () => (await import("/web/campaigning.js")).Campaigning.open(device)"""
    assert page.evaluate(found) is None


@pytest.mark.thorough
def test_moments_and_costs_are_those_of_python(page, gateway, campaign) -> None:
    page.goto(gateway.address)
    found = page.evaluate("""async () => {
      const { momentOf: emissionTime } = await import("/web/epochs.js");
      return [0, 29_000_000].map((minute) => emissionTime("0f".repeat(16), minute));
    }""")
    assert found == [emission_time(b"\x0f" * 16, minute) for minute in (0, 29_000_000)]
    shown = page.evaluate(
        """async ([table, cost]) => {
      const { certified, wholePerson } = await import("/web/privacy.js");
      const { counts } = certified(table);
      return [[0, 1], [3, 1], [10, 12]].map(([n, k]) =>
        wholePerson(n ? counts : null, n, 1e-6, Array(k).fill(cost)));
    }""",
        [described(IDS[0]), cost(certificate(campaign.stages))],
    )
    id = naming.name(certificate(campaign.stages))
    for (n, k), computed in zip(((0, 1), (3, 1), (10, 12)), shown, strict=True):
        expected = odometer({IDS[0]: n, id: k}, Fraction(1, 10**6))
        assert computed == pytest.approx(expected, rel=1e-9)
    left = page.evaluate(
        """async (table) => {
      const { certified, heldBy } = await import("/web/privacy.js");
      return heldBy(certified(table).counts, { epsilon: 20, delta: 1e-6 });
    }""",
        described(IDS[1]),
    )
    assert left == pytest.approx(float(held(PersonBudget(plan=IDS[1]), {})), rel=1e-3)
    assert left > 5e-7


@pytest.mark.thorough
def test_the_pace_is_that_of_python(page, gateway) -> None:
    """Of epsilon 2 two fit in 30 days, and three quarters of those that the budget holds,
    which are fewer by the odometer."""
    page.goto(gateway.address)
    made = naming.within(Fraction(2), Fraction(1, 10**6))
    id = naming.name(made)
    histories = [[], [100], [100, 100], [100, 110], [70, 71], [*range(100, 1600, 60)]]
    histories.append([*range(0, 900, 15)])
    days = page.evaluate(
        """async ([cost, histories]) => {
      const { paced } = await import("/web/campaigning.js");
      const debits = (days) => days.map((epoch) => ({ ...cost, epoch }));
      return histories.map((days) =>
        paced({ epsilon: 20, delta: 1e-6 }, debits(days), cost, days.at(-1) ?? 100) ?? null);
    }""",
        [cost(made), histories],
    )
    mechanism, budget = mechanism_of(id), PersonBudget(plan=ADAPTIVE, window=None)
    assert days == [
        pace.paced(
            budget, [(day, id, 1) for day in each], mechanism, each[-1] if each else 100
        ).next
        for each in histories
    ]
    assert days[:4] == [100, 100, 130, 130]
    assert days[-1] is None


def cost(made: CampaignCertificate) -> dict[str, object]:
    """Return what a debit of the browser holds of a campaign."""
    return {"square": float(made.square), "size": made.size}
