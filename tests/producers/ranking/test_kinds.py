"""Which of the two tables is taken: by what is asked for, by the mode, or the only one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from producers.ranking import LocalRecommender
from producers.ranking.kinds import CAMPAIGN, LINKS, chosen
from producers.ranking.published import CachedTable, Source, TableCache
from stream_app.campaigns.public_side import encode_published
from stream_app.errors import UserError
from stream_app.kafka.clients import Connection
from stream_app.ranking.compact_side import encode_side
from stream_app.wire.public_tables import table_digest
from tests.fixtures.item_sides import item_side
from tests.fixtures.tastes import side_of

NOWHERE = Connection("127.0.0.1:1")
TABLES = {
    "links": encode_side(item_side(np.random.default_rng(1), 3)),
    "campaign": encode_published(side_of(people=20)),
}
FOLDERS = {"links": LINKS.folder, "campaign": CAMPAIGN.folder}


def source(folder: Path, *kinds: str) -> Source:
    """Return a source without a broker, whose cache holds tables of these kinds."""
    for kind in kinds:
        cache = TableCache.for_deployment(folder, NOWHERE.bootstrap, "films", FOLDERS[kind])
        assert cache.write(CachedTable(1000.0, table_digest(TABLES[kind]), TABLES[kind]))
    return Source.of_deployment(NOWHERE, "films", folder, offline=True)


def taken(found: object) -> str:
    return "campaign" if hasattr(found.table.side, "plan") else "links"  # type: ignore[attr-defined]


BOTH = ("links", "campaign")


@pytest.mark.parametrize(
    ("kinds", "by", "mode", "expected", "reason"),
    [
        (
            BOTH,
            None,
            "local",
            "links",
            "local (there is also the side of a campaign: --by campaign)",
        ),
        (BOTH, None, "central", "campaign", "central (there is also the item side: --by links)"),
        (BOTH, None, "split", "campaign", "privacy_mode is split"),
        (BOTH, "links", "central", "links", "by links, as asked for"),
        (BOTH, "campaign", "local", "campaign", "by campaign, as asked for"),
        (("campaign",), None, "local", "campaign", "by campaign: there is no item side"),
        (("links",), None, "split", "links", "by links: there is no side of a campaign"),
        (("links",), None, "local", "links", "by links: privacy_mode is local"),
    ],
)
def test_a_table_is_taken_for_a_reason(
    kinds: tuple[str, ...], by, mode: str, expected: str, reason: str, tmp_path: Path
) -> None:
    found = chosen(source(tmp_path, *kinds), by, mode)
    assert taken(found) == expected
    assert reason in found.reason
    if len(kinds) == 1:
        assert "also" not in found.reason


@pytest.mark.parametrize(
    ("kinds", "by", "mode", "sentence"),
    [
        ((), None, "local", "no item side in the cache"),
        ((), None, "central", "no side of a campaign in the cache"),
        (("links",), "campaign", "local", "no side of a campaign in the cache"),
        (("campaign",), "links", "central", "no item side in the cache"),
    ],
)
def test_what_is_not_there_is_one_sentence(
    kinds: tuple[str, ...], by, mode: str, sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=sentence):
        chosen(source(tmp_path, *kinds), by, mode)


def test_a_table_that_nothing_is_called_is_refused() -> None:
    with pytest.raises(ValueError, match="by 'sums': give links or campaign"):
        LocalRecommender.from_kafka("127.0.0.1:1", by="sums")  # type: ignore[arg-type]
