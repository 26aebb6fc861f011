"""`murmurec rounds plan --meta`: what the catalogue has of the items stands in the plan."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_app.aggregation import keys
from stream_app.aggregation.keys import Role
from stream_app.cli import run
from stream_app.wire.campaigns.plan import Campaign, decode_plan

pytestmark = pytest.mark.kafka


def planned(path: Path) -> Campaign:
    return decode_plan((path / "plan.json").read_bytes())


def test_a_plan_keeps_the_features_that_the_catalogue_had(
    kafka, topics, environment, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    environment(MURMUREC_BOOTSTRAP_SERVERS=kafka.bootstrap, MURMUREC_TOPIC_PREFIX=topics)
    keys.make(tmp_path, Role.CENTRAL)
    Path("items.txt").write_text("\n".join(["2", "film", *map(str, range(10, 30))]))
    plan = ["rounds", "plan", "--epsilon", "2", "--scope", "items.txt", "--keys", "central.pub"]
    stars = [*plan, "--kinds", "stars", "--meta"]
    assert run(stars) == 1
    assert "the catalogue has no genres and years of the items" in capsys.readouterr().err
    assert not Path("plan.json").exists()

    Path("ratings.csv").write_text("user,item,rating\n1,1,5\n1,2,4\n")
    Path("movies.csv").write_text(
        "movieId,title,genres\n1,One (1991),War\n2,Two (1992),Drama|Comedy\n"
    )
    assert run(["items", "publish", "ratings.csv"]) == 0
    assert run(["items", "put", "film", "--genre", "Drama"]) == 0
    assert run([*plan, "--meta"]) == 2
    assert "has features of its items and no stages of stars" in capsys.readouterr().err
    assert run(stars) == 0
    assert "features of 2 of 22 items: 2 genres and the year" in capsys.readouterr().out
    before = planned(tmp_path)
    features = before.public_features
    assert features is not None
    assert features.genres == ("Comedy", "Drama")  # no item of the scope is of War
    assert features.has_genre.tolist() == [[1, 1], [0, 1], *[[0, 0]] * 20]
    assert features.year.tolist() == [1992, *[0] * 21]

    assert run(["items", "put", "2", "--genre", "War"]) == 0
    assert planned(tmp_path) == before
    assert run(stars) == 0
    assert planned(tmp_path).digest != before.digest
    assert run([*plan, "--kinds", "stars"]) == 0
    assert planned(tmp_path).public_features is None
