"""Every command works under exactly the rights of its role, and names each that is taken away.

A right is taken away before the command that needs it, and given back: then the command works. A
command without a row here fails `test_every_command_has_a_row`, a right that no row needs
`test_every_right_is_needed_by_a_command`. Servers check their rights when they start, in the order
of the table; they then do their work with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
import typer
from confluent_kafka.admin import AclBinding, AclOperation

from stream_app.aggregation import keys
from stream_app.aggregation.keys import Role
from stream_app.broker.local import free_ports
from stream_app.cli.app import app, role_of
from stream_app.kafka import acls, clients
from stream_app.kafka.clients import Connection
from stream_app.wire import Topics
from tests.faults.conftest import configure, stop
from tests.faults.secured import Commands, Secured, secured
from tests.fixtures import forks
from tests.fixtures.attacked import launch
from tests.fixtures.gateways import DEVICE, body
from tests.fixtures.small_worker import SMALL
from tests.fixtures.streams import Published
from tests.fixtures.waiting import PATIENCE_SECONDS, until

pytestmark = [pytest.mark.kafka, pytest.mark.thorough]


@dataclass(frozen=True)
class Row:
    """A command of a role, and the rights without which it is refused: operation and topic, the
    topic as an attribute of `Topics`; `*`: every topic of the deployment."""

    role: str
    words: str
    needs: str = ""
    late: bool = field(default=False)  # it works after a while: something is on its way

    @property
    def rights(self) -> list[tuple[str, str]]:
        """The operation and the topic of each right."""
        return [(each.split()[0], each.split()[1]) for each in self.needs.split(", ") if each]


JUNK = Published(0, b"0" * 32, b"no event")
# Commands that ask no Kafka, or one of their own, and those that show or grant rights.
WITHOUT_RIGHTS = {
    *("demo", "evaluate", "certify", "experiment", "reproduce"),
    "acl",
    *("broker start", "broker stop", "broker status", "config show", "state migrate"),
    *("device status", "device plan", "device enrol", "device withdraw", "device forget"),
    "rounds plan",
    *("audit canary", "audit campaign"),
}
# Shards refuse what is on in the deployment below; `tests/kafka/test_division.py` divides one.
OF_SHARDS = {"state shards"}
SERVERS = {"worker", "gateway", "aggregate", "device run", "edge"}
BEFORE = (
    Row("operator", "topics apply", "DESCRIBE *, CREATE *"),
    Row("operator", "topics apply", "ALTER_CONFIGS *"),  # with a topic that differs
)
# In this order: a command may need what an earlier one left.
WITH_A_WORKER = (
    Row("editor", "items put 7 --title Seven", "WRITE items, READ items"),
    Row("editor", "items publish catalogue.csv", "WRITE items"),
    Row("editor", "items list", "READ items"),
    Row("device", "publish --user ann --item 100 --rating 4", "WRITE ratings"),
    Row(
        "device",
        "publish --user ann --item 102 --rating 4 --mechanism partition",
        "READ item_table",
    ),
    Row("device", "replay few.csv --mode local"),
    Row(
        "device",
        "replay cells.csv --mode local --mechanism cell --emission epoch --trust-catalogue",
        "READ items",
    ),
    Row("device", "recommend --local --user ann --by links", "READ item_links", late=True),
    Row(
        "reader",
        f"ask --device {DEVICE} --timeout 30",
        "WRITE queries, READ recommendations",
    ),
    Row("reader", "ask --similar-to 100 --timeout 30"),
    Row("operator", "doctor", "READ rejected"),
    Row("operator", "config plan"),
    Row("operator", "config apply"),
    Row("operator", "state show", "READ state"),
    Row("operator", "state digest", "READ ratings, READ cuts"),
    Row("operator", "state verify"),
    Row("operator", "state export state.npz"),
    Row("operator", f"forget --device {DEVICE} --yes", "WRITE cuts"),
    Row("operator", "rounds begin plan.json", "WRITE rounds"),
    Row("operator", "rounds show", "READ rounds"),
    Row(
        "device",
        "device contribute --user ann",
        "READ rounds, WRITE contributions",
        late=True,
    ),
    Row("device", "device contribute --user bob"),
    Row("operator", "rounds stage close"),
    Row("device", "recommend --local --user ann --by campaign", "READ item_side", late=True),
    Row(
        "auditor",
        "audit wire",
        "READ ratings, READ recommendations, READ rounds, READ contributions",
    ),
)
WITHOUT_A_WORKER = (
    Row("operator", "state rebuild", "WRITE state, WRITE rejected"),
    Row("operator", "state truncate --to-cut 1 --yes"),
)
ROWS = (*BEFORE, *WITH_A_WORKER, *WITHOUT_A_WORKER)


def leaves(command: object, path: str = "") -> set[str]:
    """Return the commands of the tree, each by its words."""
    found: set[str] = set()
    for name, each in getattr(command, "commands", {}).items():
        words = f"{path} {name}".strip()
        found |= leaves(each, words) if hasattr(each, "commands") else {words}
    return found


def test_every_command_has_a_row() -> None:
    known = leaves(typer.main.get_command(app))
    of_rows = {leaf for leaf in known for row in ROWS if f"{row.words} ".startswith(f"{leaf} ")}
    assert of_rows | WITHOUT_RIGHTS | OF_SHARDS | SERVERS == known
    assert not of_rows & WITHOUT_RIGHTS
    assert [row for row in ROWS if role_of(row.words.split()[0]) != row.role] == []


def test_every_right_is_needed_by_a_command() -> None:
    for role in ("device", "reader", "editor", "operator", "auditor"):
        rows = {right for row in ROWS if row.role == role for right in row.rights}
        table = {
            (operation.name, topic)
            for feature, rows_of in acls.ROLES[role].items()
            if feature != "shards"
            for topic, operations in rows_of.items()
            for operation in operations
        }
        table |= {(operation.name, "*") for operation in acls.EVERY_TOPIC.get(role, ())}
        table -= {("DESCRIBE", "*")} if role == "auditor" else set()
        assert rows == table, role


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with secured(tmp_path_factory.mktemp("secured")) as made:
        yield made


class Deployment(Commands):
    """Commands that are run without each right that they need, too."""

    def right(self, role: str, operation: str, topic: str) -> AclBinding:
        """Return a right of a role."""
        names = Topics(self.prefix)
        name = f"{self.prefix}." if topic == "*" else getattr(names, topic)
        wanted = AclOperation[operation]
        (found,) = [
            each
            for each in self.broker.rights(role)
            if (each.name, each.operation) == (name, wanted)
        ]
        return found

    def go(self, row: Row) -> None:
        """Run a command without each right that it needs, and with all."""
        for operation, topic in row.rights:
            self.lacks(row.role, row.words, self.right(row.role, operation, topic))
        if row.late:
            until(lambda: self.run(row.role, row.words)[0] == 0, f"{row.words} works")
        elif row.words == "audit wire":
            # It has read everything, and accuses devices without a budget.
            assert "claims violated" in self.refused(row.role, row.words)
        else:
            self.works(row.role, row.words)


@pytest.fixture
def made(
    broker: Secured,
    prefix: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Deployment:
    """Give a deployment whose files are in an empty folder, without topics and rights."""
    if left := broker.every_right():  # whoever may write some topic is a producer of any
        broker.take_away(*left)
    monkeypatch.chdir(tmp_path)
    folder = {"DATA_DIR": "data", "CAMPAIGN_SCOPE": "items.txt"}
    sizes = {"TUNING_HEAD_ITEMS": "64", "TUNING_RECENT_ITEMS": "32", "TUNING_HELD_OUT": "0"}
    named = {f"MURMUREC_{name}": value for name, value in (folder | sizes).items()}
    mechanisms = {"MURMUREC_MECHANISMS": "rr:5:2,cell:5:2,partition:5:2"}
    Path("items.txt").write_text("\n".join(map(str, range(100, 108))))
    return Deployment(broker, prefix, capsys, monkeypatch, {**SMALL, **named, **mechanisms})


def with_features(made: Deployment, *roles: str, **settings: object) -> Deployment:
    """Turn features on, give the roles their rights, and let the operator create the topics."""
    more = {f"MURMUREC_{name}": str(value) for name, value in settings.items()}
    made = replace(made, settings={**made.settings, **more})
    for role in ("operator", *roles):
        made.works("", f"acl apply --role {role} --user {role}")
    return made


def write_ratings() -> None:
    """Write the files of the rows: users of even and of odd numbers like such items."""
    items = *range(100, 108), *range(200, 208)
    Path("catalogue.csv").write_text("\n".join(("item,title", *(f"{n},Title {n}" for n in items))))
    rows = [
        (user, item, 5 - (user + item // 2) % 2)
        for user in range(40)
        for item in items
        if item % 2 == user % 2 and (user // 2 + item) % 4
    ]
    for name, letter, end in (("few", "u", 1000), ("cells", "c", 102)):
        lines = [f"{letter}{user},{item},{stars}" for user, item, stars in rows if item < end]
        Path(f"{name}.csv").write_text("\n".join(("user,item,rating", *lines)))


def gateway_works(url: str) -> None:
    """Report, ask and read through a gateway: each page is there when it has read its topic."""
    for path, sent in (
        ("/readyz", None),
        ("/reports", body()),
        (f"/recommendations/{DEVICE}", None),
        ("/catalogue", None),
        ("/item-links", None),
    ):
        request = Request(url + path, sent, {"Content-Type": "application/json"})
        until(lambda asked=request: _page(asked), f"the gateway answers {path}")


def _page(asked: Request) -> bytes:
    with urlopen(asked, timeout=PATIENCE_SECONDS) as reply:
        found: bytes = reply.read()
    return found


@pytest.mark.nightly
def test_each_command_works_under_the_rights_of_its_role_and_names_one_that_is_missing(
    made: Deployment, tmp_path: Path
) -> None:
    write_ratings()
    parties = [keys.make(tmp_path, each) for each in (Role.A, Role.B)]
    made = with_features(
        made,
        *acls.ROLES,
        PRIVACY_MODE="split",
        CAMPAIGN_KEYS=",".join(each.public.hex() for each in parties),
    )
    made.go(BEFORE[0])
    admin = clients.admin(Connection(made.broker.bootstrap))
    configure(admin, Topics(made.prefix).items, "compression.type", "zstd")
    made.go(BEFORE[1])
    for role in ("worker", "gateway", "aggregator"):
        for right in made.broker.rights(role):
            made.lacks(role, f"acl check --role {role}", right)
    for user in ("ann", "bob"):
        made.works("", f"device enrol --user {user} --plan adaptive")
    made.works("", "rounds plan --epsilon 2 --least 2 --deadline 100000")
    port, page = free_ports(2)
    with ExitStack() as stack:

        def start(role: str, *words: str) -> None:
            log = tmp_path / f"{words[0]}.log"
            process = forks.start(words, log, environment=made.variables(role))
            stack.callback(process.kill)

        variables = made.variables("worker")
        worker = stack.enter_context(forks.worker([], port, tmp_path, environment=variables))
        start("gateway", "gateway", "--port", str(page))
        for party in "ab":
            start("aggregator", "aggregate", "--party", party, "--folder", str(tmp_path))
        worker.wait_until_ready()
        for row in WITH_A_WORKER:
            made.go(row)
            if row.words == "state show":
                gateway_works(f"http://127.0.0.1:{page}")
            if row.words == "rounds show":
                asked = Request(f"http://127.0.0.1:{page}/campaign")
                until(lambda asked=asked: _page(asked), "the gateway shows the campaign")
        launch(Connection(made.broker.bootstrap), Topics(made.prefix).ratings, [JUNK], {})
        until(lambda: worker.state()["rejected"], "the worker has rejected a record")
        stop(worker)
        for row in WITHOUT_A_WORKER:
            made.go(row)


WITH_FEATURE: dict[str, dict[str, object]] = {
    "": {},
    "campaigns": {"PRIVACY_MODE": "central"},
}


@pytest.mark.parametrize("feature", WITH_FEATURE)
def test_a_worker_runs_under_the_rights_of_its_features_and_is_refused_without_one(
    made: Deployment, tmp_path: Path, feature: str
) -> None:
    """It answers a query with the rights of the feature, and does not start without one of them."""
    chosen = WITH_FEATURE[feature]
    made = with_features(made, "worker", "reader", **chosen)
    made.works("operator", "topics apply")
    names = Topics(made.prefix)
    rows = acls.ROLES["worker"][feature]
    topics = {getattr(names, topic) for topic in (rows if feature else ["ratings", "rejected"])}
    for right in made.broker.rights("worker"):
        if right.name in topics:
            made.lacks("worker", "worker --admin-port 0", right)
    variables = made.variables("worker")
    with forks.worker([], free_ports(1)[0], tmp_path, environment=variables) as worker:
        worker.wait_until_ready()
        made.works("reader", f"ask --device {DEVICE} --timeout 30")
        stop(worker)


def test_a_campaign_of_one_party_runs_under_the_rights_of_its_roles(
    made: Deployment, tmp_path: Path
) -> None:
    """No worker runs: the operator opens and closes the stage."""
    party = keys.make(tmp_path, Role.CENTRAL)
    made = with_features(
        made, "device", "aggregator", PRIVACY_MODE="central", CAMPAIGN_KEYS=party.public.hex()
    )
    made.works("operator", "topics apply")
    made.works("", "rounds plan --epsilon 2 --least 2")
    made.works("operator", "rounds begin plan.json")
    made.works("operator", "rounds stage open")
    for user in ("ann", "bob"):
        made.works("", f"device enrol --user {user} --plan adaptive")
        made.works("device", f"device contribute --user {user}")
    made.works("operator", "rounds stage close")
    words = ["aggregate", "--party", "central", "--folder", str(tmp_path)]
    process = forks.start(words, tmp_path / "log", environment=made.variables("aggregator"))
    try:
        until(lambda: "released" in made.works("operator", "rounds show"), "the sum is released")
    finally:
        process.kill()


def test_a_device_program_says_which_right_is_missing_and_keeps_its_ratings(
    made: Deployment, tmp_path: Path
) -> None:
    made = with_features(made, "device")
    made.works("operator", "topics apply")
    made.works("", "device enrol --user ann")
    words, log = ["device", "run", "--user", "ann", "--watch", "r.csv"], tmp_path / "log"
    with made.broker.without(made.right("device", "WRITE", "ratings")):
        process = forks.start(words, log, environment=made.variables("device"))
        try:
            named = "no right to WRITE it; grant it: murmurec acl apply --role device"
            until(lambda: named in log.read_text(), "the right is named")
            process.terminate()
            assert process.wait(PATIENCE_SECONDS) == 0
        finally:
            process.kill()


def test_a_gateway_that_may_write_nothing_ends_with_the_right_that_is_missing(
    made: Deployment,
) -> None:
    """Its client has failed for good: it would not write either when the right is there."""
    made = with_features(made)
    made.works("operator", "topics apply")
    sentence = made.refused("gateway", "gateway --port 0")
    assert "no right to WRITE it; grant it: murmurec acl apply --role gateway" in sentence
