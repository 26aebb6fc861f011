"""An example of every reply, as the values that a gateway encodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stream_app.gateway.contract import bodies
from stream_app.gateway.contract.messages import DEVICE
from stream_app.gateway.contract.reasons import meaning
from stream_app.privacy import registry

_CUCKOO = "One Flew Over the Cuckoo's Nest (1975)"
_SHAWSHANK = "Shawshank Redemption, The (1994)"


def _allowed(name: str) -> bodies.AllowedMechanism:
    found = registry.parse(name)
    (proof,), table = found.certify(), found.table()
    counts = None if table is None else table.counts
    return bodies.AllowedMechanism(
        id=found.id,
        family=found.family,
        levels=found.levels,
        epsilon=str(found.epsilon),
        adjacency=str(found.adjacency),
        protected=found.protected,
        observed=found.observed,
        limit=found.limit,
        certificate=proof.digest,
        counts=None if counts is None else tuple(tuple(map(str, row)) for row in counts),
        in_browser=True,
        why_not=None,
    )


_ITEM = bodies.CatalogueItem(
    1193, f"{1193:016x}", _CUCKOO, ("Drama",), 1975, "films", withdrawn=False
)
_LISTED = bodies.ListedItem(318, _SHAWSHANK, ("Drama",), 1994, "films", 4.41, 1193, _CUCKOO)

EXAMPLES: Mapping[type[msgspec.Struct], msgspec.Struct] = {
    bodies.Accepted: bodies.Accepted(0, 123, duplicate=False),
    bodies.Catalogue: bodies.Catalogue((_ITEM,), 0),
    bodies.Mechanisms: bodies.Mechanisms(
        "rr:5:2", "local", "open", "murmurec.ratings.v1", (_allowed("rr:5:2"),), demo=False
    ),
    bodies.ItemList: bodies.ItemList(
        DEVICE.hex(),
        (_LISTED,),
        "links",
        4812,
        "local",
        catching_up=False,
        ndcg=0.1312,
        ndcg_popular=0.0857,
        guarantee=None,
        for_="next",
    ),
    bodies.StreamStatus: bodies.StreamStatus(
        kafka=True,
        worker=True,
        ready=True,
        cut=4812,
        ratings_per_second=1250.0,
        ratings=1_000_209,
        devices=6040,
        rmse=0.93,
        rmse_baseline=0.98,
        ndcg=0.1312,
        ndcg_popular=0.0857,
        list_method="links",
        privacy="local",
    ),
    bodies.Alive: bodies.Alive(alive=True),
    bodies.Ready: bodies.Ready(ready=True, waiting_for=None),
}


def example(kind: type[msgspec.Struct]) -> Any:
    """Return the example of a body as JSON values."""
    return msgspec.to_builtins(EXAMPLES[kind])


def refusal(reason: str) -> Any:
    """Return a refusal with this reason; a view may word its sentence more closely."""
    return msgspec.to_builtins(bodies.Refusal(meaning(reason), reason))
