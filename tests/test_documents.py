"""The documents against the code: commands, settings, topics, paths, links and examples exist."""

from __future__ import annotations

import ast
import json
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from research.privacy_page import filled
from stream_app import wire
from stream_app.settings import GROUPS, Settings
from tests import reference_page
from tests.test_structure import LAYER

ROOT = Path(__file__).parents[1]
PAGES = {
    str(page.relative_to(ROOT)): page.read_text(encoding="utf-8")
    for page in sorted(
        [
            *ROOT.glob("*.md"),
            *(ROOT / "docs").glob("*.md"),
            ROOT / "deploy" / "web" / "README.md",
            ROOT / "tests" / "benchmarks" / "README.md",
        ]
    )
}
README, REFERENCE, ARCHITECTURE, OPERATE, PAPERS = (
    PAGES[page]
    for page in (
        "README.md",
        "docs/reference.md",
        "docs/architecture.md",
        "docs/operate.md",
        "docs/papers.md",
    )
)
SECURING = ("Rights", "What each party can cost")
INTAKE = wire.Intake({"rr:5:2": 5}, wire.PARTITIONS)


def section(page: str, title: str) -> str:
    """Return the text under a heading of the second level."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    assert found, title
    return found[1]


def accepted(value: bytes) -> wire.Event:
    """Return the event as a worker decodes it, with the key and partition of the reference."""
    key = json.loads(value)["device"].encode()
    place = wire.partitions_of(np.frombuffer(key, np.uint8).reshape(1, 32), wire.PARTITIONS)
    return wire.decode(key, value, int(place[0]), INTAKE)


def test_the_readme_fits_in_150_lines() -> None:
    assert len(README.splitlines()) <= 150


def test_the_tables_of_the_reference_are_those_of_the_code() -> None:
    assert filled(REFERENCE, reference_page.TABLES) == REFERENCE, (
        "run: python -m tests.reference_page"
    )
    shown = re.findall(r"<!-- table: ([a-z]+) -->", REFERENCE)
    assert sorted(shown) == sorted(reference_page.TABLES)


def test_the_event_of_the_reference_is_accepted() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", REFERENCE, re.S)
    event = accepted(example.encode())
    assert event.mechanism == "rr:5:2"
    assert len(event.items) == len(event.reports) == 2


def test_the_event_of_the_python_snippet_is_accepted_and_goes_to_the_rating_topic() -> None:
    (program,) = re.findall(r"```python\n(.*?)```", REFERENCE, re.S)
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


def test_the_query_of_the_reference_is_accepted() -> None:
    shell = re.search(r'^echo "\$ID:(\{.*\})" \|$', REFERENCE, re.M)
    assert shell
    text = shell[1].replace('\\"', '"').replace("$ID", "0" * 32).replace("$DEVICE", "1" * 32)
    text = re.sub(r'"deadline":\$\(\(.*\)\)', '"deadline":1', text)
    assert wire.decode_message(wire.Query, text.encode()).k == 10


def test_the_names_of_the_python_example_are_public() -> None:
    import murmurec

    (program,) = re.findall(r"```python\n(.*?)```", README, re.S)
    names = {
        node.attr
        for node in ast.walk(ast.parse(program))
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "murmurec"
    }
    assert names == {"Recommender", "evaluate", "Device", "Recommendations"}
    assert names <= set(murmurec.__all__)


@pytest.mark.parametrize("page", PAGES)
def test_every_topic_that_is_named_exists(page: str) -> None:
    names = {topic.name for topic in wire.Topics().table()}
    assert set(re.findall(r"murmurec\.[a-z-]+\.v\d+", PAGES[page])) <= names
    drawn = {f"murmurec.{name}" for name in re.findall(r"\b([a-z-]+\.v\d)\b", PAGES[page])}
    assert drawn <= names


def test_every_setting_is_in_the_table_with_its_default() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+?) \| .+ \|$", section(REFERENCE, "Configuration"), re.M)
    listed = dict(rows)
    tables = re.split(r"^### \[([a-z]+)\]$", section(REFERENCE, "Configuration"), flags=re.M)
    assert tables[1::2] == list(GROUPS)
    assert list(listed) == [name for group in GROUPS.values() for name in group.model_fields]
    assert set(listed) == set(Settings.model_fields)
    values = Settings().model_dump(mode="json")
    for name in ("topic_prefix", "partitions", "model", "held_out", "hash_seed", "clip", "factors"):
        assert listed[name].strip("`") == str(values[name])
    for name in ("depth", "cut_seconds", "round_records", "admin_port"):
        assert listed[name].strip("`") == str(values[name])
    sizes = [listed[f"{part}_bytes"] for part in ("sketch", "scalars", "seen")]
    assert sizes == ["16 MiB", "8 MiB", "16 MiB"]
    assert [values[f"{part}_bytes"] >> 20 for part in ("sketch", "scalars", "seen")] == [16, 8, 16]
    assert listed["mechanisms"] == "`rr:5:2`"
    assert values["mechanisms"] == ["rr:5:2"]


def test_every_setting_that_the_pages_on_security_name_exists() -> None:
    of_kafka = {"producer_byte_rate", "request_percentage", "bad_signature"}
    pages = (PAGES["SECURITY.md"], *map(partial(section, OPERATE), SECURING))
    named = set(re.findall(r"`([a-z]+_[a-z_]+)`", "".join(pages)))
    assert named > of_kafka
    assert named - of_kafka <= set(Settings.model_fields)


def test_every_measurement_that_a_page_names_can_be_repeated() -> None:
    text = " ".join(" ".join(PAGES.values()).split())
    named = re.findall(r"`python -m tests\.benchmarks ([a-z_ ]+)`", text)
    assert "attacks requests signatures" in named
    for name in [*" ".join(named).split(), *re.findall(r"\(`([a-z_]+)`\)", measured())]:
        assert (ROOT / "tests" / "benchmarks" / f"{name}.py").exists(), name
    assert "@@" not in text


def measured() -> str:
    """Return what the page of the papers states with the benchmark that measures it."""
    return section(PAPERS, "What was measured")


def test_every_command_that_is_named_exists() -> None:
    from stream_app.cli.app import COMMANDS

    known = {name for panel in COMMANDS.values() for name, _ in panel}
    for page, text in PAGES.items():
        named = set(re.findall(r"^(?:    )(?:\.venv/bin/)?murmurec ([a-z]+)", text, re.M))
        assert named <= known, page
    in_readme = set(re.findall(r"^    murmurec ([a-z]+)", README, re.M))
    assert in_readme >= {"broker", "topics", "worker", "publish", "replay", "ask", "state"}


@pytest.mark.parametrize("page", PAGES)
def test_every_path_that_is_named_exists(page: str) -> None:
    if page == "CHANGELOG.md":
        pytest.skip("names files of earlier versions")
    tops = "stream_app|producers|consumers|murmurec|deploy|docs|tests"
    for path in re.findall(rf"`((?:{tops})/[A-Za-z0-9_/.]*)`", PAGES[page]):
        assert "NAME" in path or (ROOT / path).exists(), path


def test_every_module_that_a_docstring_names_exists() -> None:
    tops = ("stream_app", "producers", "consumers", "murmurec", "research", "deploy", "tests")
    sources = [path for top in tops for path in sorted((ROOT / top).rglob("*.py"))]
    known = ["/" + path.relative_to(ROOT).as_posix() for path in sources]
    for path in sources:
        for name in re.findall(r"`([a-z][a-z0-9_/]*\.py)`", path.read_text(encoding="utf-8")):
            assert any(module.endswith("/" + name) for module in known), f"{path.name}: {name}"


def test_every_package_and_file_of_the_architecture_exists() -> None:
    layers, papers = section(ARCHITECTURE, "Layers"), section(PAPERS, "The papers")
    life = section(ARCHITECTURE, "The life of a rating")
    server, device = ROOT / "stream_app", ROOT
    for path in re.findall(r"`([a-z_]+/[a-z_/]*(?:\.py)?)`", layers + papers + life):
        assert (server / path).exists() or (device / path).exists(), path
    packages = {path.parent.name for path in server.glob("*/__init__.py")}
    drawn = {name: int(n) for n, name in re.findall(r"^\| (\d) \| `([a-z_]+)/` \|", layers, re.M)}
    assert drawn == {package: LAYER[package] for package in packages}


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]+)(?:#([^)]+))?\)", PAGES[page]):
        if "://" not in target and not target.startswith(("doi:", "arXiv:")):
            file = (ROOT / page).parent / target
            assert file.exists(), target
            titles = re.findall(r"^#+ (.+)$", file.read_text("utf-8"), re.M) if anchor else ()
            slugs = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}
            assert not anchor or anchor in slugs, f"{target}#{anchor}"


def test_what_is_not_protected_is_on_the_first_screens() -> None:
    head = README[: README.index("## Use it")]
    for word in ("exists", "item", "day", "add up", "pseudonym", "Replies", "timing", "clip"):
        assert word in head


def test_every_paper_of_the_code_is_in_the_bibliography() -> None:
    papers = section(PAPERS, "Bibliography")
    for key in ("S000", "S001", "S002", "S003", "S004"):
        assert f"| {key} | " in papers
    for folder in ("stream_app", "producers", "consumers", "murmurec"):
        for file in (ROOT / folder).rglob("*.py"):
            cited = re.findall(r"\bS00[0-4]\b", file.read_text(encoding="utf-8"))
            if file.name == "systems.py" or "reproduce" in file.parts:
                continue  # where a paper is asked for by its key
            assert not cited, f"{file}: cite {cited[0]} by authors and year"
