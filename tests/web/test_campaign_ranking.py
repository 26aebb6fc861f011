"""The browser ranks by a campaign's public side as a device in Python does; in a real Chromium."""

from __future__ import annotations

import base64

import numpy as np
import pytest

from producers.ranking import RatedItem
from producers.ranking.campaign_ranker import CampaignRanker
from stream_app import wire
from stream_app.campaigns.public_side import PublicSide, PublishedSide, encode_published
from stream_app.campaigns.together import TogetherSide
from tests.fixtures.browser import serving
from tests.web import campaign_inputs, web_vectors
from tests.web.test_campaigning import KEYS

pytestmark = pytest.mark.thorough
ITEMS = 60
_RANK = """async ([text, films, histories]) => {
  const { decodeCampaign, rankCampaign } = await import("/campaign_ranking.js");
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const side = decodeCampaign(bytes.buffer, new Map(films));
  return histories.map((history) => rankCampaign(side, history, 10));
}"""


@pytest.mark.parametrize("directions", [2, 5])
def test_lists_and_reasons_are_those_of_the_device_in_python(page, directions: int) -> None:
    rng = np.random.default_rng(directions)
    plan = campaign_inputs.campaign(ITEMS, KEYS)
    side = PublicSide(plan.number, plan.scope)
    if directions:
        vectors = rng.normal(size=(ITEMS // 2, directions)).astype(np.float32)
        weights = rng.random(directions).astype(np.float32)
        side = PublicSide(plan.number, plan.scope, TogetherSide(vectors, weights))
    entries = {
        wire.key(item): wire.CatalogueEntry(
            item, f"film {n}", genres=(f"genre {n % 5}", f"kind {n % 7}"), year=1950 + n
        )
        for n, item in enumerate(plan.scope)
    }
    histories = [
        [
            RatedItem(plan.scope[place], wire.key(plan.scope[place]), float(rng.integers(1, 6)))
            for place in rng.permutation(ITEMS)[:size]
        ]
        for size in (0, 1, 3, 10, 30)
    ]
    ranker = CampaignRanker(side, entries)
    films = [
        [f"{key:016x}", {"genres": entry.genres, "year": entry.year}]
        for key, entry in entries.items()
    ]
    told = [
        [{"key": f"{row.key:016x}", "stars": row.stars} for row in history] for history in histories
    ]
    published = encode_published(PublishedSide.of_campaign(plan, 1, side))
    with serving(web_vectors.PATH.parent) as site:
        page.goto(f"{site}/vectors.json")
        found = page.evaluate(_RANK, [base64.b64encode(published).decode(), films, told])
    for shown, history in zip(found, histories, strict=True):
        ranked = ranker.rank(history, 10, because=True)
        assert [each["key"] for each in shown] == [f"{row.item:016x}" for row in ranked]
        assert [each["because"] for each in shown] == [
            [f"{reason:016x}" for reason in row.because] for row in ranked
        ]
        scores = [row.score for row in ranked]
        assert [each["score"] for each in shown] == pytest.approx(scores, rel=1e-6)
