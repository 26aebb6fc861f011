"""Answers of private lists: a debit for each draw, refusals in one sentence, nothing but ids."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from stream_app.agents.private_lists import private_list_service as lists
from stream_app.agents.private_lists.private_list_service import PrivateLists
from stream_app.agents.queries import replies
from stream_app.agents.runtime import Runtime
from stream_app.deployment import check_private_lists, spec_from_settings
from stream_app.errors import UserError
from stream_app.log.list_budgets import ListBudgets, Verdict
from stream_app.privacy.k_subset import KSubset
from stream_app.privacy.randomness import SeededSource
from stream_app.serving.ranked_items import RankedItems, Refused
from stream_app.serving.together import private_lists
from stream_app.serving.together.co_rated import NoisedSimilarities
from stream_app.serving.together.similar_items import NOT_PUBLISHED
from stream_app.settings import Settings
from stream_app.wire import CatalogueEntry, Recommendation, decode_message, encode_message
from stream_app.wire.messages import MILLION, ListDebit
from tests.fixtures.similarity_tables import a_table
from tests.stream_app.agents.lines import a_runtime
from tests.stream_app.serving.test_private_lists import SPEC, replica_of

STRANGER = b"never reported.."
DEVICE, ITEMS = (1).to_bytes(16, "little"), 12
SCOPED = replace(SPEC, list_scope=tuple(range(ITEMS)))


class LogInMemory:
    """The log of debits of one worker, which reads back at once, or never."""

    def __init__(self, budget: int = 2 * MILLION) -> None:
        self.budgets, self.budget, self.answers, self.debits = ListBudgets(), budget, True, 0

    async def debit(self, user: str, query: str, epsilon: int) -> Verdict | None:
        """Append and read back."""
        await asyncio.sleep(0)
        self.debits += 1
        record = ListDebit(user, query, f"{self.debits:016x}", epsilon, self.budget)
        found = self.budgets.apply(user.encode(), encode_message(record))
        assert found is not None
        return found[1] if self.answers else None


def asked(
    action: Callable[[PrivateLists, LogInMemory, Runtime], Awaitable[None]], **settings: float
) -> None:
    """Run an action with lists over a catalogue of 12 items, of which some are rated."""

    async def main() -> None:
        runtime, line = a_runtime(settings=Settings(**settings), spec=SCOPED)  # type: ignore[arg-type]
        line.checkpoints.close()
        state = replica_of({1: [0, 1, 2], 2: [0, 1, 2, 3], 3: [1, 3, 4]}, SCOPED)
        runtime.replica.take(state)
        for item in range(ITEMS):
            entry = CatalogueEntry(item, withdrawn=item == 11)
            runtime.catalogue.learn(str(item).encode(), encode_message(entry))
        runtime.catalogue.read = True
        debits = LogInMemory()
        given = PrivateLists(runtime, debits, SeededSource(1))  # type: ignore[arg-type]
        await action(given, debits, runtime)

    asyncio.run(main())


async def answer(
    given: PrivateLists,
    epsilon: str = "1",
    k: int = 3,
    query: str = "a" * 16,
    device: bytes = DEVICE,
) -> RankedItems | Refused:
    found = given.answer(device, Fraction(epsilon), k, query)
    return found if isinstance(found, Refused) else await found


async def reason(given: PrivateLists, epsilon: str = "1", k: int = 3, query: str = "b" * 16) -> str:
    found = await answer(given, epsilon, k, query)
    assert isinstance(found, Refused)
    assert len(found.reason) <= 240
    assert not set(found.reason) & set("\"'\\")
    return found.reason


def test_a_list_has_ids_in_the_order_of_keys_and_states_its_guarantee() -> None:
    async def action(given: PrivateLists, debits: LogInMemory, runtime: Runtime) -> None:
        found = await answer(given, "1/2")
        assert isinstance(found, RankedItems)
        reply = replies.recommendation(runtime, "0" * 16, found)
        value = replies.encoded_reply(reply, runtime.catalogue)
        read = decode_message(Recommendation, value)
        items = [item for item in read.items if item is not None]
        assert items == sorted(items)
        assert len(set(items)) == 3
        assert 11 not in items
        assert set(read.scores) == {None}
        assert set(read.because) == {None}
        assert (read.ndcg, read.ndcg_popular) == (None, None)
        assert read.guarantee is not None
        assert (read.guarantee.epsilon, read.guarantee.method) == ("1/2", "exact-k-subset")
        assert len(value) == replies.reply_bytes(runtime.catalogue)
        assert debits.budgets.spent(DEVICE) == MILLION // 2

    asked(action)


def test_what_was_rated_can_be_in_a_list() -> None:
    async def action(given: PrivateLists, debits: LogInMemory, runtime: Runtime) -> None:
        debits.budget = 10_000 * MILLION
        seen = set()
        for query in range(30):
            found = await answer(given, "1", 3, f"{query:016x}")
            assert isinstance(found, RankedItems)
            seen |= set(found.items.tolist())
        assert seen == set(range(11))

    asked(action)


def test_a_budget_is_spent_and_a_query_is_answered_once() -> None:
    async def action(given: PrivateLists, debits: LogInMemory, runtime: Runtime) -> None:
        assert isinstance(await answer(given, "3/2", query="a" * 16), RankedItems)
        assert "spent epsilon 1.5 of 2: too little is left for 1" in await reason(given, "1")
        value = runtime.metrics.registry.get_sample_value
        assert value("murmurec_private_lists_refused_total") == 1
        # Refused without a record: what is spent never falls.
        assert debits.debits == 1
        assert await reason(given, "1/4", query="a" * 16) == lists.REPEATED
        assert await reason(given, "1", query="a" * 16) == lists.REPEATED
        assert debits.debits == 1  # however often it comes again, the log does not grow
        assert debits.budgets.spent(DEVICE) == 3 * MILLION // 2
        assert isinstance(await answer(given, "1/2", query="c" * 16), RankedItems)

    asked(action)


def test_two_queries_at_once_do_not_share_what_is_left() -> None:
    async def action(given: PrivateLists, debits: LogInMemory, runtime: Runtime) -> None:
        found = await asyncio.gather(
            *(answer(given, "3/2", query=each * 16) for each in ("a", "b", "a"))
        )
        assert isinstance(found[0], RankedItems)
        assert isinstance(found[1], Refused)
        assert found[2] is found[0]  # a repeat meanwhile does not overtake its list
        assert debits.debits == 2
        assert debits.budgets.spent(DEVICE) == 3 * MILLION // 2

    asked(action)


def test_a_debit_that_is_not_read_back_draws_nothing() -> None:
    async def action(given: PrivateLists, debits: LogInMemory, runtime: Runtime) -> None:
        debits.answers = False
        assert await reason(given) == lists.NOT_READ_BACK
        assert debits.budgets.spent(DEVICE) == MILLION

    asked(action)


def test_where_answers_come_from_the_published_table_lists_do() -> None:
    async def action(given: PrivateLists, debits: LogInMemory, runtime: Runtime) -> None:
        runtime.recommender.from_published = True
        assert await reason(given) == NOT_PUBLISHED
        assert debits.debits == 0
        keys = np.arange(12, dtype=np.uint64)
        runtime.recommender.take_published(NoisedSimilarities(a_table(keys=keys)))
        debits.budget = 10_000 * MILLION
        given._most = debits.budget
        found = await answer(given, "1000", 2)
        assert isinstance(found, RankedItems)
        history = np.arange(3, dtype=np.uint64)
        among = np.arange(11, dtype=np.uint64)
        table = runtime.recommender.published
        assert table is not None
        scores = private_lists.published_scores(table, history, among)
        assert scores[found.items].sum() == np.sort(scores)[-2:].sum() > 0  # some are equal
        assert found.guarantee == private_lists.guarantee(Fraction(1000), published=True)
        reply = replies.recommendation(runtime, "0" * 16, found)
        value = replies.encoded_reply(reply, runtime.catalogue)
        assert len(value) == replies.reply_bytes(runtime.catalogue)

    asked(action)


def test_an_invented_pseudonym_gets_a_list_of_nothing_and_leaves_nothing() -> None:
    """Without a report there is nothing to hide: every set is as likely, as for an account without
    a report of the scope, and no debit is written, whatever was spent under the name before."""

    async def action(given: PrivateLists, debits: LogInMemory, runtime: Runtime) -> None:
        await debits.debit(STRANGER.hex(), "d" * 16, 2 * MILLION)
        runtime.replica.rated_values = None  # type: ignore[assignment,method-assign]
        counts = np.zeros(ITEMS, np.int64)
        for query in range(300):
            found = await answer(given, "2", 3, f"{query:016x}", STRANGER)
            assert isinstance(found, RankedItems)
            assert found.guarantee is not None
            counts[found.items] += 1
        assert debits.debits == 1
        assert counts[11] == 0
        assert counts[:11].min() > 40  # 82 each on average, 7.7 the standard deviation
        published = runtime.metrics.registry.get_sample_value
        # What costs nothing is no part of the total by which refusals for a budget are judged.
        assert published("murmurec_queries_total", {"outcome": "answered"}) == 300
        assert published("murmurec_private_lists_total") == 0
        assert published("murmurec_private_list_epsilon_total") == 0

    asked(action)


@pytest.mark.parametrize(
    ("change", "drawn"), [({"clip": 2.5}, False), ({"recent_items": 64}, True)], ids=str
)
def test_a_list_is_drawn_under_the_design_of_the_state_that_it_reads(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], drawn: bool
) -> None:
    """That of the debit may have ended while the list waits for its turn: with longer lists the
    sensitivity is another one, and with a clip there is none."""
    changed, used, release = replace(SCOPED, **change), list[float](), KSubset.release

    def watched(self: KSubset, *arguments: Any) -> Any:
        used.append(self.sensitivity)
        return release(self, *arguments)

    async def action(given: PrivateLists, debits: LogInMemory, runtime: Runtime) -> None:
        async with given._turn:
            waiting = asyncio.ensure_future(answer(given))
            while not given._turn._waiters:  # type: ignore[attr-defined]
                await asyncio.sleep(0)
            assert debits.budgets.spent(DEVICE) == MILLION
            runtime.replica.take(replica_of({1: [0, 1, 2]}, changed))
        found = await waiting
        assert isinstance(found, RankedItems) is drawn
        assert isinstance(found, RankedItems) or found.reason.endswith(lists.PAID)
        published = runtime.metrics.registry.get_sample_value
        assert published("murmurec_private_lists_total") == drawn
        assert used == [private_lists.sensitivity(changed.recent_items)] * drawn

    monkeypatch.setattr(KSubset, "release", watched)
    asked(action)


def test_of_lists_that_wait_one_copies_its_counts_in_a_turn_of_the_loop() -> None:
    """A copy takes milliseconds, and hundreds may wait: the loop serves others in between."""

    async def action(given: PrivateLists, debits: LogInMemory, runtime: Runtime) -> None:
        turns, copied, scores = 0, list[int](), given._scores

        async def count_turns() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        def watched(*arguments: Any) -> Any:
            copied.append(turns)
            return scores(*arguments)

        given._scores = watched  # type: ignore[method-assign]
        counting = asyncio.create_task(count_turns())
        asked = (answer(given, "1/50", query=f"{number:016x}") for number in range(20))
        found = await asyncio.gather(*asked)
        counting.cancel()
        assert all(isinstance(each, RankedItems) for each in found)
        assert len(set(copied)) == 20

    asked(action)


def test_bad_requests_are_refused_before_a_debit() -> None:
    async def action(given: PrivateLists, debits: LogInMemory, runtime: Runtime) -> None:
        for epsilon, shown in (("1/1000000", "1e-06"), ("3", "3"), ("100000", "100000")):
            sentence = f"epsilon {shown} of a private list: give 0.002 to 2, as the operator allows"
            assert await reason(given, epsilon) == sentence
        assert await reason(given, "1", 12) == "k 12: list_scope has 11 items to choose from"
        for item in range(ITEMS):
            entry = CatalogueEntry(item, withdrawn=True)
            runtime.catalogue.learn(str(item).encode(), encode_message(entry))
        assert await reason(given) == lists.EMPTY
        runtime.replica = replica_of({1: [1, 2]}, replace(SPEC, list_scope=()))
        assert "set list_scope to a file of the public items" in await reason(given)
        assert debits.debits == 0

    asked(action)


def test_a_worker_that_has_not_read_the_catalogue_says_so() -> None:
    async def action(given: PrivateLists, debits: LogInMemory, runtime: Runtime) -> None:
        runtime.catalogue.read = False
        for k in (3, 12):
            assert await reason(given, "1", k) == lists.STARTING
        runtime.catalogue.entries.clear()
        assert await reason(given) == lists.STARTING
        assert debits.debits == 0

    asked(action)


def test_the_largest_epsilon_of_one_list_is_the_deployments() -> None:
    async def action(given: PrivateLists, debits: LogInMemory, runtime: Runtime) -> None:
        assert "epsilon 1 of a private list: give 0.002 to 0.5" in await reason(given, "1")
        assert isinstance(await answer(given, "1/2"), RankedItems)

    asked(action, private_list_epsilon=0.5)


def test_every_list_is_counted_with_its_epsilon() -> None:
    async def action(given: PrivateLists, debits: LogInMemory, runtime: Runtime) -> None:
        await answer(given, "1/2", query="a" * 16)
        await answer(given, "1/2", query="a" * 16)
        await answer(given, "1/4", query="b" * 16)
        published = runtime.metrics.registry.get_sample_value
        assert published("murmurec_private_lists_total") == 2
        assert published("murmurec_private_list_epsilon_total") == 0.75

    asked(action)


ALLOWED = {"co_ratings": True}
PLAIN = spec_from_settings(Settings())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"list_budget": 2.0}, "co_ratings false"),
        ({"list_budget": 2.0, "co_ratings": True}, r"without list_scope: .*\(murmurec items list"),
        ({"list_budget": 2.0, "clip": 4.0, **ALLOWED}, "clip 4"),
        ({"list_budget": 1e-4, **ALLOWED}, "at least 0.001"),
    ],
)
def test_settings_under_which_a_list_is_not_what_it_states_are_refused(
    settings: dict[str, float], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        check_private_lists(Settings(**settings), PLAIN if "list_scope" in message else SCOPED)  # type: ignore[arg-type]
    check_private_lists(Settings(), PLAIN)
    check_private_lists(Settings(list_budget=2.0, **ALLOWED), SCOPED)  # type: ignore[arg-type]
