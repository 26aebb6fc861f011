"""`murmurec gateway --schemas`: the documents of the contract, without a Kafka."""

from __future__ import annotations

import json

from stream_app.cli import run


def test_all_are_written_with_the_prefix_of_the_deployment(environment, capsys, tmp_path):
    folder = tmp_path / "new" / "contract"
    assert run(["gateway", "--schemas", str(folder), "--prefix", "shop"]) == 0
    assert str(folder) in capsys.readouterr().out
    found = json.loads((folder / "asyncapi.json").read_text(encoding="utf-8"))
    assert found["channels"]["ratings"]["address"] == "shop.ratings.v1"
    assert json.loads((folder / "openapi.json").read_text(encoding="utf-8"))["openapi"]
    assert json.loads((folder / "schemas" / "query.json").read_text(encoding="utf-8"))["$id"]


def test_a_folder_that_cannot_be_written_is_one_sentence(environment, capsys, tmp_path):
    (tmp_path / "file").touch()
    assert run(["gateway", "--schemas", str(tmp_path / "file")]) == 1
    error = capsys.readouterr().err
    assert f"--schemas {tmp_path / 'file'}: " in error
    assert error.count("\n") == 1
