"""Lists by what goes together: each taste gets its own items, by every basis and index."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stream_app.privacy import registry
from stream_app.ranking.histories import History
from stream_app.ranking.low_rank import posterior_likes
from stream_app.ranking.scores import COUNT, DEFAULT, component_scores, score
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.recommender import Recommender
from stream_app.serving.served_side import ServedSide
from stream_app.state.replica import Replica
from stream_app.wire import CatalogueEntry, Event, encode_message, user_key
from tests.fixtures.clusters import DESIGN, HALF, device_of, half_of, learned, liked
from tests.fixtures.replicas import applied
from tests.naive import ranking as naive
from tests.stream_app.serving.sides import derived, serving, trained, weighted

PERSONAL = ("links", "learned")


@pytest.mark.parametrize("basis", PERSONAL)
def test_a_user_gets_the_items_of_its_own_taste(basis: str) -> None:
    recommender = serving(basis)
    for number in range(8):
        answer = recommender.answer(device_of(number), 7)
        assert set(answer.items.tolist()) <= set(half_of(number))
        assert len(set(answer.items.tolist())) == 7
        assert answer.method == basis


@pytest.mark.parametrize("basis", PERSONAL)
def test_seen_and_withdrawn_items_are_left_out_and_the_list_is_filled(basis: str) -> None:
    catalogue = Catalogue()
    for item in (0, 13):
        catalogue.learn(str(item).encode(), encode_message(CatalogueEntry(item, withdrawn=True)))
    recommender = serving(basis, catalogue=catalogue)
    seen = recommender.replica.history(device_of(0))[0].tolist()
    answer = recommender.answer(device_of(0), 100)
    expected = set(range(2 * HALF)) - {0, 13} - set(seen)
    assert sorted(answer.items.tolist()) == sorted(expected)


def test_a_user_without_a_history_gets_popular_items() -> None:
    recommender = serving()
    stranger = recommender.answer(bytes(16), 5)
    learned(recommender.replica, liked(500, [7777], 1))  # an item outside the head
    outside = recommender.answer(device_of(500), 5)
    assert (stranger.method, outside.method) == ("popular", "popular")
    side = recommender.side
    assert side is not None
    best = side.keys[np.argsort(-side.popularity, kind="stable")[:5]]
    assert stranger.items.tolist() == outside.items.tolist() == best.tolist()


def test_an_item_that_only_missing_cells_have_named_is_in_no_list() -> None:
    """The item side has such items, of a public scope; the items that can be shown do not."""
    replica = Replica(replace(DESIGN, mechanisms=(registry.parse("cell:5:8"),)))
    scope = np.arange(20, dtype=np.uint64)
    reports = np.where(scope < 10, 4, 5).astype(np.uint8)
    for number in range(40):
        applied(replica, Event(device_of(number), 1, "cell:5:8", 0, scope, reports))
    recommender = Recommender(replica, Catalogue(), "exact")
    assert len(derived(recommender).side) == 20
    assert sorted(recommender.answer(device_of(0), 20).items.tolist()) == list(range(10))


def test_reports_that_protect_presence_are_no_likes_where_public_ratings_make_the_list() -> None:
    cell = registry.parse("cell:5:2")
    both = replace(DESIGN, mechanisms=(*DESIGN.mechanisms, cell), presence_bytes=1 << 14)
    recommender = trained(spec=both)
    items = np.arange(2 * HALF, dtype=np.uint64)
    stars = np.zeros(len(items), np.uint8)  # as if it had rated everything
    learned(recommender.replica, Event(device_of(500), 1, "cell:5:2", 0, items, stars))
    recommender.replica.end_round(2, recommender.replica.end_offsets)
    derived(recommender)
    assert len(recommender.replica.history(device_of(500), reported=True)[0])
    assert recommender.answer(device_of(500), 5).method == "popular"
    assert recommender.answer(device_of(0), 5).method == "links"


def test_items_outside_the_head_follow_those_of_the_head() -> None:
    recommender = serving()
    recommender.mark_stale(learned(recommender.replica, liked(500, [7777], 1)).rows)
    answer = recommender.answer(device_of(0), 100)
    assert answer.items[-1] == 7777
    assert len(answer.items) == 2 * HALF - 5 + 1


def test_popular_items_serve_until_there_is_an_item_side() -> None:
    recommender = trained()
    assert recommender.answer(device_of(0), 5).method == "popular"
    derived(recommender)
    assert recommender.answer(device_of(0), 5).method == "links"


def test_the_reply_names_basis_and_measured_quality() -> None:
    recommender = serving("learned")
    answer = recommender.answer(device_of(0), 5)
    assert (answer.method, answer.ndcg, answer.ndcg_popular) == ("learned", 0.1235, 0.09)
    assert answer.now is False
    answer = recommender.answer(device_of(0), 5, now=True)
    assert (answer.method, answer.ndcg, answer.now) == ("links", None, True)
    answer = serving().answer(bytes(16), 5)
    assert (answer.method, answer.ndcg) == ("popular", 0.09)


def test_a_list_is_ranked_by_the_score_of_the_ranker() -> None:
    recommender = serving("learned")
    served = recommender.served
    assert served is not None
    for now in (False, True):
        answer, found = recommender.answer(device_of(3), 7, now=now), served.side.keys
        expected = score(served.side, recommender.history(device_of(3), served), now=now)
        expected[~recommender.allowed_slots(user_key(device_of(3)), served)] = -np.inf
        assert answer.items.tolist() == found[np.argsort(-expected, kind="stable")[:7]].tolist()


@pytest.mark.parametrize("levels", [(0,), (4,), (0, 1, 2, 3, 4)], ids=["no", "all", "mixed"])
def test_all_likes_or_none_over_many_visits_leave_finite_lists(levels: tuple[int, ...]) -> None:
    """Items outside the head among them, which is half as large as the catalogue."""
    replica, rng = Replica(replace(DESIGN, head_items=HALF)), np.random.default_rng(2)
    for day in range(1, 4):
        for number in range(40):
            items = rng.choice(2 * HALF, 4, replace=False).tolist()
            level = int(rng.choice(levels))
            learned(replica, replace(liked(number, items, day, level), epoch=day))
        replica.end_round(day, replica.end_offsets)
    recommender = Recommender(replica, Catalogue(), "exact")
    served = derived(recommender)
    for number in (0, 1, 39, 500):
        for now in (False, True):
            assert np.isfinite(
                recommender.head_scores(device_of(number), served, now=now).scores
            ).all()
            answer = recommender.answer(device_of(number), 2 * HALF, now=now)
            assert np.isfinite(answer.scores).all()
            assert len(set(answer.items.tolist())) == len(answer.items) > 0


def test_a_replaced_state_drops_the_item_side() -> None:
    recommender = serving()
    recommender.replica.restart(recommender.replica.origin)
    recommender.restart()
    assert recommender.side is None
    assert recommender.answer(device_of(0), 5).items.size == 0


def test_no_recall_is_measured_where_every_item_is_scored() -> None:
    assert np.isnan(serving().recall(device_of(3), 5))


def served_with(channel: tuple[float, float] | None) -> ServedSide:
    """Return an item side with factors, made ready for clean or for noised histories."""
    served = serving().served
    assert served is not None
    assert served.model.factors.shape[1] > 0
    return ServedSide(served.derived, channel)


def test_the_prepared_taste_is_that_of_the_formula() -> None:
    served = served_with(None)
    history = History.untimed(np.array([1, 4, 9]), np.array([1, 0.6, 0.2], np.float32))
    model = served.model
    parts = (model.factors, model.noise, model.rates)
    # An item without a rating counts as x = 0.
    x = np.zeros(len(served.side))
    x[history.slots] = history.weights
    expected = naive.posterior_mean(*parts, x)
    assert served.taste(history) == pytest.approx(expected, rel=1e-3, abs=1e-4)
    nothing = History.untimed(np.empty(0, np.intp), np.empty(0, np.float32))
    assert not served.taste(nothing).any()


def test_a_history_of_noised_bits_counts_debiased_zeros_included() -> None:
    channel = positive, false = 0.8, 0.3
    served = served_with(channel)
    slots, count = np.array([1, 4, 9]), len(served.side)
    x = np.full(count, -false / (positive - false))
    x[slots] += 1 / (positive - false)
    model = served.model
    taste = naive.posterior_mean(model.factors, model.variance(channel), model.rates, x)
    bits = History.untimed(slots, np.ones(3, np.float32))
    assert served.taste(bits) == pytest.approx(taste, rel=1e-3, abs=1e-4)
    likes = posterior_likes(
        model, taste.astype(np.float32), np.isin(np.arange(count), slots), channel
    )
    whole = component_scores(served.side, History.untimed(np.arange(count), likes))
    found = component_scores(served.side, served.scored(bits, served.taste(bits)))
    assert found.links == pytest.approx(whole.links, rel=1e-3, abs=1e-4)
    assert served.scored(nothing := bits.at(bits.slots < 0), taste) is nothing


def test_the_memory_of_lists_is_that_of_their_parts() -> None:
    recommender = trained()
    bare = recommender.memory()
    assert bare["item side"] == 0
    served = derived(recommender)
    assert recommender.memory()["item side"] == served.memory_bytes > served.side.memory_bytes > 0
    assert bare["popular items"] > 0


@pytest.mark.parametrize("basis", PERSONAL)
def test_an_entry_names_a_rated_item_of_its_own_taste(basis: str) -> None:
    recommender = serving(basis)
    for number in range(8):
        seen = set(recommender.replica.history(device_of(number))[0].tolist())
        answer = recommender.answer(device_of(number), 7)
        assert len(answer.because) == 7
        assert set(answer.because) <= seen
        assert seen <= set(half_of(number))
    filled = recommender.answer(device_of(0), 100)
    assert len(filled.because) == len(filled.items)


def test_a_list_that_is_no_sum_over_a_history_has_no_reasons() -> None:
    """Neither weights of popularity alone nor a worker without an item side have any."""
    recommender, popular = serving(), np.zeros_like(DEFAULT)
    popular[COUNT - 1] = 1
    assert recommender.served is not None
    recommender.adopt(weighted(recommender.served, popular))
    assert set(recommender.answer(device_of(0), 7).because) == {None}
    assert trained().answer(device_of(0), 7).because == ()


def test_a_stranger_has_no_reasons() -> None:
    assert serving().answer(bytes(16), 7).because == ()


def test_where_presence_is_protected_no_entry_has_a_reason() -> None:
    """The server does not know what was rated: most positive reports are fakes."""
    replica = Replica(replace(DESIGN, mechanisms=(registry.parse("cell:5:8"),)))
    scope = np.arange(20, dtype=np.uint64)
    for number in range(60):
        mine_first = (scope < 10) == (number % 2 == 0)
        reports = np.where(mine_first & (scope % 3 != number % 3), 4, 5).astype(np.uint8)
        applied(replica, Event(device_of(number), 1, "cell:5:8", 0, scope, reports))
    recommender = Recommender(replica, Catalogue(), "exact")
    derived(recommender)
    answer = recommender.answer(device_of(0), 5)
    assert answer.method == "links"
    assert len(answer.items)
    assert answer.because == ()
