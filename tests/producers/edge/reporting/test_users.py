"""What a person may ask of the site: what it holds, what left it, a copy, and deletion."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import msgspec
import pytest

from producers.edge.catalogue.site_catalogue import Catalogue
from producers.edge.lists.maker import ListMaker
from producers.edge.lists.newest_tables import PublicTables
from producers.edge.reporting.users import UnknownUser
from producers.edge.reporting.ways_out import ReportingOptions
from producers.edge.site_terms import SiteTerms
from producers.edge.store.database import Database
from producers.edge.store.store_tables import impressions, offers
from producers.journal import PersonBudget
from producers.ranking.published import Source
from stream_app.errors import UserError
from tests.fixtures.postgres import Server, postgres
from tests.producers.edge.reporting.world import DAY, TODAY, TOPIC, edge, key

__all__ = ["postgres"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "edge.db"


@pytest.fixture
def database(path: Path) -> Iterator[Database]:
    with Database(f"sqlite:///{path}") as opened:
        yield opened


def shown(database: Database, account: int, *items: str) -> None:
    with database.writing() as connection:
        row = {"list": "l1", "account": account, "model": "local", "at": 1}
        connection.execute(impressions.insert(), [row])
        rows = [{"list": "l1", "place": n, "item": item} for n, item in enumerate(items)]
        connection.execute(offers.insert(), rows)


def test_a_user_sees_what_is_held_spent_and_sent(database):
    run = edge(database)
    run.done("ann", "a", "b")
    run.steps()
    run.done("ann", "c", type="view")
    found = run.users.show("ann")
    assert [(row.item, row.stars, row.reported) for row in found.history] == [
        ("a", 5.0, True), ("b", 5.0, True), ("c", pytest.approx(3.6), False),
    ]  # fmt: skip
    assert found.pseudonym == run.device("ann").hex()
    budget = found.budget
    assert (budget.epsilon, budget.window_days, budget.reports_left) == (20.0, 365, 38)
    assert [(line.adjacency, line.epsilon, line.reports) for line in budget.spent] == [
        ("value", 1.0, 2)
    ]
    (line,) = found.left_the_site
    assert (line.topic, line.messages, line.confirmed, line.waiting) == (TOPIC, 1, 1, 0)
    assert [(row.user, row.events) for row in run.users.accounts(10)] == [("ann", 3)]
    run.reporter.stop()


def test_an_account_is_shown_where_another_edge_writes_its_book(database):
    run = edge(database)
    run.done("ann", "a")
    run.steps()
    held = run.users.show("ann")
    run.reporter.stop()
    assert edge(database, clock=run.clock).users.show("ann") == held


def test_an_export_holds_every_event(database):
    run = edge(database)
    run.done("ann", "a", "a", "b")
    found = json.loads(msgspec.json.encode(run.users.export("ann")))
    assert [event["item"] for event in found["events"]] == ["a", "a", "b"]
    assert found["user"] == "ann"


def test_nobody_is_unknown_in_one_sentence(database):
    run = edge(database)
    for ask in (run.users.show, run.users.export, run.users.delete):
        with pytest.raises(UnknownUser, match="holds nothing"):
            ask("nobody")
        with pytest.raises(UserError, match="must not contain"):
            ask("a\0b")


def test_a_deletion_removes_what_is_clear_and_keeps_what_was_spent(database, path):
    run = edge(database)
    run.done("secret-name", "secret-item", "b")
    run.done("bob", "c")
    with database.reading() as connection:
        account = run.users._account(connection, "secret-name").number
    shown(database, account, "secret-item")
    run.steps()
    receipt = run.users.delete("secret-name")
    assert (receipt.events_removed, receipt.lists_removed, receipt.upstream) == (2, 1, "operator")
    assert receipt.pseudonym in receipt.upstream_sentence
    assert receipt.budget.spent[0].epsilon == 1.0
    assert run.names.count("bob") == 1
    assert "secret-name" not in run.names
    for file in path.parent.iterdir():
        assert b"secret-" not in file.read_bytes(), file
    run.steps()
    found = run.users.show("secret-name")
    assert (found.events, found.lists, found.history) == (0, 0, [])
    assert found.budget.withdrawn_day == TODAY
    assert found.budget.spent == receipt.budget.spent
    assert run.users.delete("secret-name").events_removed == 0
    run.reporter.stop()


def lists_of(database: Database) -> ListMaker:
    tables = PublicTables(Source)  # which is not read
    maker = ListMaker(database, Catalogue(database), tables, SiteTerms())
    maker.models.step()
    return maker


def check_a_deletion(here: Database, there: Database) -> None:
    """At its answer no edge shows what the user stood behind, before it counts anew."""
    run, makers = edge(here), [lists_of(each) for each in (here, there)]
    for n in range(5):
        run.done(f"u{n}", "a", "b")
    for maker in makers:
        maker.models.step()
        assert [each.item for each in maker.similar("a").items] == ["b"]
        assert {each.item for each in maker.popular().items} == {"a", "b"}
        assert maker.for_session(["a"]).ranked_by == maker.similar("a").ranked_by == "own"
    run.done("bob", "a")
    for maker in makers:
        assert maker.for_user("bob").items[0].by == "own"
    run.users.delete("u3")
    for maker in makers:
        for made in (maker.similar("a"), maker.popular(), maker.latest(), maker.for_session(["a"])):
            assert made.items == ()
        assert maker.because("bob", "b").items == ()
        assert {each.by for each in maker.for_user("bob").items} == {"latest"}
        maker.models.step()
        assert maker.similar("a").items == ()
        assert maker.for_user("bob").items[0].by == "own"  # by four people, to a known user
        assert [each.item for each in maker.popular().items] == ["a"]  # with bob
    run.users.delete("u3")  # again changes nothing
    assert [each.item for each in makers[1].popular().items] == ["a"]
    run.reporter.stop()


def test_no_list_of_any_edge_shows_a_user_from_the_deletion_on(database):
    check_a_deletion(database, database)


@pytest.mark.thorough
def test_no_list_of_any_edge_on_postgresql_shows_a_user_from_the_deletion_on(postgres: Server):
    address = postgres.database()
    with Database(address) as here, Database(address) as there:
        check_a_deletion(here, there)


def test_a_user_who_comes_back_has_the_budget_that_was_left(database):
    terms = {"budget": PersonBudget(Fraction(1), Fraction(0))}  # two reports
    run = edge(database, **terms)
    run.done("ann", "a")
    run.steps()
    run.users.delete("ann")
    run.steps()
    run.clock.at += 60
    run.done("ann", "a", "b", "c")
    run.steps()
    assert run.names == ["ann"]
    assert len(run.recommender.reports()) == 2  # "a" before, and one of "b" and "c"
    assert key("a") in {item for _, item in run.recommender.reports()}
    assert run.users.show("ann").budget.reports_left == 0
    run.recommender.check_numbers()
    run.reporter.stop()


def test_an_event_from_before_a_deletion_stays_deleted(database):
    run = edge(database)
    run.done("ann", "a")
    run.clock.at += 60
    run.users.delete("ann")
    run.clock.at -= 30
    run.done("ann", "late")
    assert run.users.show("ann").events == 0
    assert run.names != ["ann"]


def test_nothing_is_released_after_a_deletion(database):
    run = edge(database)
    run.done("ann", "a")
    run.users.delete("ann")  # before the reporter looked
    run.steps()
    assert run.recommender.seen == []
    assert run.users.delete("ann").upstream == "nothing"
    run.reporter.stop()


def test_the_recommender_is_asked_to_forget_once_all_has_arrived(database):
    asked, away = [], [True]

    def forget(device):
        if away[0]:
            raise UserError("the recommender is away")
        asked.append(device)

    run = edge(database, options=ReportingOptions(forget=forget))
    run.steps(2)
    run.recommender.silent = True  # the delivery report does not come
    run.done("ann", "a")
    run.steps()
    receipt = run.users.delete("ann")
    assert (receipt.upstream, receipt.left_the_site[0].waiting) == ("asked", 1)
    away[0] = False
    run.steps(40)
    assert asked == []
    run.recommender.silent, run.recommender.away = False, True
    run.reporter.stop()
    run.recommender.away = False
    away[0] = True
    again = edge(database, run.recommender, run.clock, ReportingOptions(forget=forget))
    again.done("ann", "b")  # back meanwhile: nothing new is reported before
    again.steps(40)
    assert asked == []
    assert any("a deletion waits" in each for each in again.reporter.status().conditions)
    assert len(again.recommender.reports()) == 1
    away[0] = False
    again.steps(60)
    assert asked == [again.device("ann")]
    assert len(again.recommender.reports()) == 2
    assert again.reporter.status().conditions == ()
    again.reporter.stop()


def test_a_clock_far_ahead_does_not_keep_a_user_from_a_deletion(database):
    run = edge(database)
    run.done("ann", "a")
    run.steps()
    run.clock.at += 400 * DAY
    assert run.users.delete("ann").events_removed == 1
    run.reporter.stop()


def test_a_deleted_account_is_not_taken_for_a_user_of_any_name(database):
    run = edge(database)
    run.done("ann", "a")
    device = run.device("ann").hex()
    run.users.delete("ann")
    for user in (f" {device}", device, "None", " "):
        run.done(user, "b")
        assert [event.item for event in run.users.export(user).events] == ["b"]
    run.users.delete(" ")
    assert run.names.count(None) == 2
    assert run.users.show("ann").events == 0
    assert [row.user for row in run.users.accounts(10)].count("") == 2
    run.done("ann", "c")
    assert [event.item for event in run.users.export("ann").events] == ["c"]
