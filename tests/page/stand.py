"""The page over a gateway without Kafka: films, a public side and a demo's document in memory.

What a browser does by itself is tested here: it takes no broker, no worker, and a second or two.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from stream_app.campaigns.public_side import PublicSide, PublishedSide, encode_published
from stream_app.campaigns.together import TogetherSide
from stream_app.ranking.compact_side import encode_side
from stream_app.wire.campaigns.plan import Campaign
from tests.fixtures.item_sides import item_side
from tests.web.small_gateway import WEB, SmallGateway, small_gateway

GENRES = ("western", "war", "space", "romance", "comedy", "crime")
QUALITY = {
    "here": 0.174,
    "popular": 0.145,
    "users": 200,
    "error": 0.01,
    "k": 10,
}
DEMO = {"mode": "split", "people": 2000, "ratings": 300_000, "quality": QUALITY}


def films(keys: Sequence[int], titles: Sequence[str] = ()) -> bytes:
    """Return GET /catalogue of items that are their keys; the first ones have these titles."""
    found = []
    for n, key in enumerate(keys):
        title = titles[n] if n < len(titles) else f"The Sheriff of Canyon {n} ({1950 + n % 50})"
        genres = [GENRES[n % len(GENRES)]]
        row = {"item": key, "key": f"{key:016x}", "title": title, "genres": genres, "year": None}
        found.append(row | {"withdrawn": False})
    return json.dumps({"items": found, "left_out": 0}).encode()


def published(campaign: Campaign, rng: np.random.Generator) -> bytes:
    """Return GET /campaign/side after a first stage *together*."""
    vectors = rng.normal(size=(len(campaign.scope) // 2, 4)).astype(np.float32)
    together = TogetherSide(vectors, rng.random(4).astype(np.float32))
    side = PublicSide(campaign.number, campaign.scope, together)
    return encode_published(PublishedSide.of_campaign(campaign, 1, side))


@contextmanager
def stand(
    campaign: Campaign | None = None,
    *,
    demo: bool = True,
    items: int = 60,
    titles: Sequence[str] = (),
) -> Iterator[SmallGateway]:
    """Give a gateway that serves the page; the items of a campaign come first."""
    with small_gateway() as gateway:
        rng = np.random.default_rng(5)
        side = item_side(rng, items, 9, 5, 4)
        known = [] if campaign is None else [i for i in campaign.scope if isinstance(i, int)]
        keys = known + list(range(1000, 1000 + items))
        keys = sorted(set(keys[:items]))
        side = type(side)(**(vars(side) | {"keys": np.array(keys, np.uint64)}))
        gateway.demo = demo
        gateway.pages |= {
            "/": (WEB / "index.html").read_bytes(),
            "/catalogue": films(keys, titles),
            "/item-links": encode_side(side),
            "/demo": json.dumps(DEMO).encode(),
        }
        if campaign is not None:
            gateway.pin(campaign)
            gateway.pages["/campaign/side"] = published(campaign, rng)
        yield gateway
