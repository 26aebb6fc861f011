"""What the README says can be run, is set, or can be published: checked against the program."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import numpy as np
import pytest

from stream_app import wire
from stream_app.settings import Settings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
INTAKE = wire.Intake({"rr:5:2": 5}, wire.PARTITIONS)


def section(title: str) -> str:
    """Return the text under a heading of the second level."""
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", README, re.M | re.S)
    assert found, title
    return found[1]


def accepted(value: bytes) -> wire.Event:
    """Return the event as a worker decodes it, keyed and placed as the README says."""
    key = json.loads(value)["device"].encode()
    place = wire.partitions_of(np.frombuffer(key, np.uint8).reshape(1, 32), wire.PARTITIONS)
    return wire.decode(key, value, int(place[0]), INTAKE)


def test_the_event_in_the_readme_is_one() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", README, re.S)
    event = accepted(example.encode())
    assert event.mechanism == "rr:5:2"
    assert len(event.items) == len(event.reports) == 2


def test_the_event_of_the_python_snippet_is_one_and_goes_to_the_rating_topic() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", README, re.S)
    ast.parse(program)
    fields = re.search(r"^event = (\{.*?\})$", program, re.M | re.S)
    assert fields
    text = fields[1].replace("int(time.time()) // 86_400", "20000")
    device = re.search(r'^device = "([0-9a-f]{32})"$', program, re.M)
    assert device
    event = ast.literal_eval(text.replace('"device": device', f'"device": "{device[1]}"'))
    accepted(json.dumps(event).encode())
    assert f'"{wire.Topics().ratings}"' in program
    assert '"partitioner": "murmur2_random"' in program


def test_the_question_in_the_readme_is_one() -> None:
    shell = re.search(r'^echo "\$ID:(\{.*\})" \|$', README, re.M)
    assert shell
    text = shell[1].replace('\\"', '"').replace("$ID", "0" * 32).replace("$DEVICE", "1" * 32)
    text = re.sub(r'"deadline":\$\(\(.*\)\)', '"deadline":1', text)
    assert wire.decode_message(wire.Query, text.encode()).k == 10


def test_every_topic_in_the_readme_exists() -> None:
    names = {topic.name for topic in wire.Topics().table()}
    assert set(re.findall(r"murmurec\.[a-z]+\.v\d+", README)) <= names
    drawn = {
        f"murmurec.{name}" for name in re.findall(r"\b[a-z]+\.v\d\b", section("Three parties"))
    }
    assert drawn <= names


def test_every_setting_is_in_the_table_with_its_default() -> None:
    rows = re.findall(r"^\| (`.+?) \| (.+?) \| .+ \|$", section("Configuration"), re.M)
    told = {
        name: (default, len(names))
        for cell, default in rows
        for names in [re.findall(r"`([a-z_]+)`", cell)]
        for name in names
    }
    assert set(told) == set(Settings.model_fields)
    values = Settings().model_dump(mode="json")
    simple = ("topic_prefix", "partitions", "model", "held_out", "hash_seed", "clip")
    for name in simple:
        assert told[name][0].strip("`") == str(values[name])
    pairs = re.search(r"`factors`, `depth` \| (\d+), (\d+)", README)
    assert pairs
    assert pairs.groups() == (str(values["factors"]), str(values["depth"]))
    assert "`auto`, 256" in told["index"][0]
    assert (values["index"], values["code_bits"]) == ("auto", 256)
    assert "16, 8, 16 MiB" in told["sketch_bytes"][0]
    sizes = [values[f"{part}_bytes"] >> 20 for part in ("sketch", "scalars", "seen")]
    assert sizes == [16, 8, 16]
    assert (values["cut_seconds"], values["round_records"]) == (0.2, 2000)
    assert told["cut_seconds"][0] == "0.2, 2000"
    assert str(values["admin_port"]) in told["admin_port"][0]
    assert values["mechanisms"] == ["rr:5:2"]


def test_every_command_in_the_readme_exists() -> None:
    commands = set(re.findall(r"^    (?:\.venv/bin/)?murmurec ([a-z]+)", README, re.M))
    assert commands >= {"broker", "topics", "worker", "publish", "replay", "ask", "state"}
    for command in commands | {"config", "demo"}:
        place = ROOT / "stream_app" / "cli" / command
        assert place.with_suffix(".py").exists() or place.is_dir(), command


def test_every_file_and_folder_in_the_tables_exists() -> None:
    for title in ("The papers, and where they are", "Structure"):
        paths = re.findall(
            r"`((?:stream_app|producers|consumers|deploy|tests)/[^`]*)`", section(title)
        )
        assert paths
        for path in paths:
            assert (ROOT / path).exists(), path


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md", "deploy/README.md"])
def test_every_link_leads_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if "://" not in target:
            assert ((ROOT / page).parent / target).exists(), target


def test_what_is_not_protected_stands_on_the_first_screens() -> None:
    head = README[: README.index("## Three parties")]
    for word in ("exists", "item", "day", "add up", "pseudonym", "Replies", "timing", "clip"):
        assert word in head
