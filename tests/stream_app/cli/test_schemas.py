"""`murmurec schemas`: the documents of the contract, without a Kafka."""

from __future__ import annotations

import json

from stream_app.cli import run


def test_the_names_are_printed_and_each_is_a_document(environment, capsys):
    assert run(["schemas"]) == 0
    names = capsys.readouterr().out.split()
    assert {"openapi", "asyncapi", "event", "refusal"} <= set(names)
    assert run(["schemas", "event"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "event"


def test_all_are_written_with_the_prefix_of_the_deployment(environment, capsys, tmp_path):
    folder = tmp_path / "new" / "contract"
    assert run(["schemas", "--out", str(folder), "--prefix", "shop"]) == 0
    assert str(folder) in capsys.readouterr().out
    found = json.loads((folder / "asyncapi.json").read_text(encoding="utf-8"))
    assert found["channels"]["ratings"]["address"] == "shop.ratings.v1"
    assert json.loads((folder / "schemas" / "query.json").read_text(encoding="utf-8"))["$id"]


def test_what_cannot_be_done_is_one_sentence(environment, capsys, tmp_path):
    (tmp_path / "file").touch()
    for options in (["event2"], ["--out", str(tmp_path / "file")], ["--prefix", "no spaces"]):
        assert run(["schemas", *options]) != 0
        error = capsys.readouterr().err
        assert "Traceback" not in error
        assert len(error.splitlines()) <= 6


def test_the_help_fits_a_screen(environment, capsys):
    assert run(["schemas", "--help"]) == 0
    assert len(capsys.readouterr().out.splitlines()) <= 45
