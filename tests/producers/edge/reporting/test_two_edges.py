"""Two edges on one PostgreSQL: one writes a book; the other takes it over when that one ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import text

from producers.edge.store.book_log import BOOKS, BookLog, BookTaken
from producers.edge.store.database import Database
from tests.fixtures.postgres import Server, postgres
from tests.fixtures.waiting import until
from tests.producers.edge.reporting.world import Edge, edge

__all__ = ["postgres"]
pytestmark = pytest.mark.thorough


@pytest.fixture
def address(postgres: Server) -> str:
    return postgres.database()


@pytest.fixture
def two(address: str) -> Iterator[tuple[Edge, Edge]]:
    with Database(address) as one, Database(address) as other:
        first = edge(one)
        second = edge(other, first.recommender, first.clock)
        yield first, second
        first.reporter.stop()
        second.reporter.stop()


def end_sessions(run: Edge) -> None:
    """End every session of an edge that holds a book, as a server that restarts does."""
    holding = text("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
    with run.database.writing() as connection:
        connection.execute(holding)


def test_a_book_has_one_writer(address: str) -> None:
    with Database(address) as one, Database(address) as other:
        book = BookLog(one, 3)
        with pytest.raises(BookTaken):
            BookLog(other, 3)
        book.close()
        BookLog(other, 3).close()


def test_books_move_to_another_edge_and_nothing_is_drawn_twice(two: tuple[Edge, Edge]) -> None:
    first, second = two
    first.recommender.silent = True
    first.done("ann", "a", "b")
    first.steps(2)
    second.steps(6)
    assert (first.reporter.status().books, second.reporter.status().books) == (BOOKS, 0)
    assert second.reporter.status().books_elsewhere == BOOKS
    assert second.users.show("ann") == first.users.show("ann")
    sent = list(first.recommender.seen)
    first.recommender.away = True
    first.reporter.stop()
    first.recommender.away = first.recommender.silent = False
    second.done("ann", "b", "c")
    second.steps(12)
    assert second.reporter.status().books == BOOKS
    assert second.recommender.seen[: len(sent) * 2] == sent * 2  # the same bytes again
    assert len(second.recommender.reports()) == 3
    assert all(len(draws) == 1 for draws in second.recommender.reports().values())
    assert second.users.show("ann").budget.spent[0].reports == 3
    second.recommender.check_numbers()


def test_an_edge_whose_sessions_ended_writes_no_book_of_another(two: tuple[Edge, Edge]) -> None:
    first, second = two
    first.done("ann", "a")
    first.steps(3)
    end_sessions(second)
    until(lambda: second.steps(5) or len(second.reporter.books) == BOOKS, "the books")
    first.done("ann", "b")
    second.done("bob", "c")
    for _ in range(12):  # both believe for a while that they write
        first.steps(1)
        second.steps(1)
    status = first.reporter.status(), second.reporter.status()
    assert status[0].books + status[1].books == BOOKS
    reports = first.recommender.reports()
    assert len(reports) == 3
    assert all(len(draws) == 1 for draws in reports.values())
    first.recommender.check_numbers()


@pytest.mark.nightly
def test_a_server_that_is_killed_and_back_loses_nothing(
    postgres: Server, two: tuple[Edge, Edge]
) -> None:
    first, second = two
    first.done("ann", "a")
    first.steps(3)
    postgres.kill()
    first.steps(6)
    assert any("cannot be reached" in each for each in first.reporter.status().conditions)
    postgres.start()
    first.done("ann", "b")
    for _ in range(12):
        first.steps(1)
        second.steps(1)
    assert len(first.recommender.reports()) == 2
    assert all(len(draws) == 1 for draws in first.recommender.reports().values())
    first.recommender.check_numbers()


def test_a_deletion_at_one_edge_ends_what_the_other_reports(two: tuple[Edge, Edge]) -> None:
    first, second = two
    first.steps(2)
    second.done("ann", "a")
    assert second.users.delete("ann").events_removed == 1
    first.steps(6)
    assert first.recommender.seen == []
    second.clock.at += 60
    second.done("ann", "b")
    first.steps(6)
    assert len(first.recommender.reports()) == 1
