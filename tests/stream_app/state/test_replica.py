"""The state is a function of the log: same records in canonical order, same bytes, however they
were cut up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from stream_app.state.replica import Replica, StateSpec
from stream_app.wire import Event, Reason, decode_many
from tests.fixtures.replicas import ALL, ITEMS, LIKES, SAYING, SCOPE, SMALL, applied, played
from tests.fixtures.streams import EVERY_FAMILY, Published, events, log, publish, run_of


def digests(replica: Replica) -> tuple[str, str]:
    return replica.model_digest(), replica.ledger_digest()


@pytest.mark.parametrize("model", ["hybrid", "sketch"])
def test_the_digests_do_not_depend_on_how_the_log_was_cut_into_batches(
    model: str, rng: np.random.Generator
) -> None:
    spec = replace(ALL, model=model)
    made = events(rng, 300, families=EVERY_FAMILY)
    records = [publish(event, json=bool(rng.integers(2))) for event in made]
    whole = played(records, rng, spec)
    for most in (1, 7, 50):
        assert digests(played(records, rng, spec, most)) == digests(whole)


def test_one_changed_report_changes_the_model_digest(rng: np.random.Generator) -> None:
    made = events(rng, 100, mechanism="rr:5:2")
    changed = made[40]
    reports = changed.reports.copy()
    reports[0] = (reports[0] + 1) % 5
    others = [*made[:40], replace(changed, reports=reports), *made[41:]]
    spec = replace(SMALL, held_out=0.0)
    left = played([publish(e) for e in made], rng, spec)
    right = played([publish(e) for e in others], rng, spec)
    assert left.model_digest() != right.model_digest()
    assert left.ledger_digest() == right.ledger_digest()


def test_another_spec_has_another_digest(rng: np.random.Generator) -> None:
    records = [publish(e) for e in events(rng, 20)]
    seen = {played(records, rng, d).model_digest() for d in (SMALL, replace(SMALL, seed=2))}
    assert len(seen) == 2


def test_headers_name_the_settings_that_differ_and_never_the_seed() -> None:
    other = replace(SMALL, head_items=SMALL.head_items + 4, held_out=0.4, seed=2)
    clauses = (
        f"head_items is {other.head_items} there and {SMALL.head_items} here; "
        f"held_out is 0.4 there and {SMALL.held_out} here"
    )
    assert SMALL.difference(other.headers) == clauses
    assert SMALL.difference(replace(SMALL, seed=2).headers) == "hash_seed is another there"
    assert b"seed" not in dict(other.headers)["settings"]
    for headers in (None, [], [("settings", b"junk")], [("settings", None)]):
        assert SMALL.difference(headers) == ""


def test_rejected_and_repeated_records_do_not_change_the_model(
    rng: np.random.Generator,
) -> None:
    """Every tenth record of one partition is poison: the model digest is that of the log without
    them."""
    spec = replace(SMALL, partitions=1)
    clean = [publish(event, partitions=1) for event in events(rng, 300)]
    poison = [
        Published(0, b"k", bytes(rng.integers(0, 256, 40, dtype=np.uint8))),
        Published(0, clean[0].key, clean[0].value),
        Published(0, None, None),
        Published(0, clean[0].key, clean[0].value[:-1] if clean[0].value else None),
    ]
    mixed = list(clean)
    for place in range(295, 0, -10):
        mixed.insert(place, poison[place % len(poison)])
    left, right = played(clean, rng, spec, 20), played(mixed, rng, spec, 20)
    assert left.model_digest() == right.model_digest()
    assert left.ledger_digest() != right.ledger_digest()
    counts = right.ledger.counts()
    assert counts["applied"] == left.ledger.counts()["applied"] == 300
    assert counts["duplicate"] + counts["rejected"] == len(mixed) - 300
    assert counts["duplicate"] > 0
    assert counts["rejected"] > 0


def test_a_seq_that_jumps_is_held_back_and_its_device_continues(
    rng: np.random.Generator,
) -> None:
    made = events(rng, 1)[0]
    chain = [replace(made, seq=seq) for seq in (1, 2**20, 3, 3)]
    replica = played([publish(event) for event in chain], rng)
    assert replica.ledger.counts()["applied"] == 2
    assert replica.ledger.counts()["duplicate"] == 1
    assert replica.ledger.counts()["seq_gaps"] == 1
    assert replica.ledger.rejected() == {str(Reason.SEQ_JUMP): 1}


def test_every_record_is_in_the_ledger_and_holes_are_counted(rng: np.random.Generator) -> None:
    records = [publish(event) for event in events(rng, 200)]
    replica = played(records, rng)
    replica.end_round(4, [end + 3 for end in replica.end_offsets])
    ledger = replica.ledger
    assert (ledger.records.sum(axis=1) + ledger.absent == np.array(replica.end_offsets)).all()
    assert ledger.counts()["absent"] == 3 * SMALL.partitions


def test_held_out_pairs_are_chosen_by_key_never_learned_and_still_seen(
    rng: np.random.Generator,
) -> None:
    spec = replace(SMALL, held_out=0.3)
    event = Event(
        bytes(range(16)),
        1,
        "none:5:inf",
        0,
        np.arange(2000, dtype=np.uint64),
        np.full(2000, 4, np.uint8),
    )
    replica = Replica(spec)
    record = publish(event)
    outcome = replica.apply(decode_many(run_of([record], 0, 1, record.partition), spec.intake))
    share = outcome.held_out.mean()
    assert 0.25 < share < 0.35
    assert replica.seen.test_many(outcome.users, outcome.items).all()
    again = Replica(replace(spec, model="sketch"))
    assert (
        again.apply(decode_many(run_of([record], 0, 1, record.partition), spec.intake)).held_out
        == outcome.held_out
    ).all()


def test_clipped_ratings_are_counted_among_the_learned_alone(rng: np.random.Generator) -> None:
    spec = replace(SMALL, clip=0.05, held_out=0.5)
    record = publish(events(rng, 1, items=4000, most=2)[0])
    made = [publish(e) for e in events(rng, 300, items=400, most=6, mechanism="none:5:inf")]
    replica = played([record, *made], rng, spec)
    counts = replica.ledger.counts()
    assert 0 < counts["ratings_clipped"] < counts["ratings_learned"]
    assert counts["ratings_held_out"] > 0


def test_nothing_is_learned_from_a_wholly_held_out_log(rng: np.random.Generator) -> None:
    records = [publish(event) for event in events(rng, 50)]
    replica = Replica(replace(SMALL, held_out=0.5))
    empty = {k: v.tobytes() for k, v in replica.learner.arrays().items()}
    replica._threshold = np.uint64(2**64 - 1)
    for p, part in enumerate(log(records)):
        if part:
            replica.apply(decode_many(run_of(part, 0, len(part), p), SMALL.intake))
    assert {k: v.tobytes() for k, v in replica.learner.arrays().items()} == empty


def test_a_missing_report_changes_rates_and_numbers_of_reports_alone() -> None:
    """A scope of missing reports changes the presence rates, the device's mark and how many reports
    each item has, and the mean takes its first start; it is no pair and no part of a list."""
    replica = Replica(replace(ALL, held_out=0.3))
    before = {name: array.tobytes() for name, array in replica.model_arrays().items()}
    outcome = applied(replica, replace(SCOPE, reports=np.full(40, 5, np.uint8)))
    after = {name: array.tobytes() for name, array in replica.model_arrays().items()}
    changed = {name for name in after if after[name] != before.get(name)}
    assert {name for name in changed if name.endswith(".overall")} == {
        "learner.overall",
        "presence.overall",
    }
    assert changed - {"learner.overall"} == {
        "presence.tags", "presence.sums", "presence.overall", "marks.devices", "marks.marks",
        "marks.days", "marks.digests",
        "reported_head.rows", "reported_head.totals", "reported_head.counts",
        "reported_head.recent",
        "reported_items.keys", "reported_items.reports", "reported_items.credit",
        "reported_moments.moments", "reported_moments.numbers",
        "reported_lists.ends", "reported_lists.blocks", "reported_lists.links", "rated_lists.ends",
        "rated_lists.visits", "rated_lists.likes",
    }  # fmt: skip
    assert not replica.model_arrays()["reported_lists.blocks"].any()
    counts = replica.pair_snapshot().counts()
    assert counts is not None
    assert not counts.sums.any()
    assert counts.exposures.sum() == 24
    assert len(outcome.users) == len(outcome.held_out) == 0
    assert len(outcome.missing.rows) == 40
    assert (outcome.missing.rows == -1).all()
    counts = replica.ledger.counts()
    assert counts["applied"] == 1
    assert {n for name, n in counts.items() if name.startswith("ratings")} == {0}


def test_a_published_cell_is_learned_and_counted_but_not_marked_as_seen() -> None:
    replica = Replica(replace(ALL, held_out=0.3))
    outcome = applied(replica, SCOPE)
    assert outcome.items.tolist() == SAYING.tolist()
    assert replica.items.keys.tolist() == SAYING.tolist()
    assert replica.frequencies.total == len(SAYING)
    assert not replica.seen.arrays()["blocks"].any()
    assert 0 < outcome.held_out.sum() < len(SAYING)
    counts = replica.ledger.counts()
    assert counts["ratings_learned"] + counts["ratings_held_out"] == len(SAYING)
    assert len(outcome.missing.rows) == 40 - len(SAYING)
    assert (outcome.priors > 0).all()
    assert (outcome.priors < 1).all()
    open_one = applied(
        replica, replace(SCOPE, seq=2, mechanism="rr:5:2", reports=SCOPE.reports % 5)
    )
    assert replica.seen.test_many(open_one.users, open_one.items).all()
    assert (open_one.priors == 1).all()


def test_a_cell_is_decoded_with_its_own_prior() -> None:
    """A fresh learner gives the same result for the same cells with the priors of the outcome."""
    replica = Replica(replace(ALL, held_out=0.0))
    outcome = applied(replica, SCOPE)
    fresh = Replica(replica.spec).learner
    fresh.start_mean(3.85, 0.25)
    columns = outcome.users, outcome.items, outcome.reports, outcome.channels
    learn = np.ones(len(outcome.users), np.bool_)
    assert fresh.learn_many(*columns, learn, outcome.priors).error.tolist() == (
        outcome.update.error.tolist()
    )
    assert (outcome.priors < 0.9).all()


def test_a_duplicate_record_is_counted_by_its_reports() -> None:
    replica = Replica(ALL)
    for _ in range(2):
        outcome = applied(replica, SCOPE)
    assert outcome.duplicates == len(SAYING) == replica.ledger.counts()["ratings_duplicate"]
    assert len(outcome.missing.rows) == len(outcome.users) == 0
    again = Replica(SMALL)
    for _ in range(2):
        outcome = applied(again, replace(SCOPE, mechanism="none:5:inf", reports=SCOPE.reports % 5))
    assert outcome.duplicates == 40


def test_one_changed_missing_report_changes_the_model_digest() -> None:
    """A missing report changes the presence rates, although it is not learned."""
    digests = set()
    for report in (5, 0):
        replica = Replica(replace(ALL, held_out=0.0))
        reports = np.full(40, 5, np.uint8)
        reports[7] = report
        applied(replica, replace(SCOPE, reports=reports))
        digests.add(replica.model_digest())
    assert len(digests) == 2


@pytest.mark.parametrize("spec", [SMALL, LIKES], ids=["public", "likes"])
def test_a_spec_that_needs_no_priors_keeps_no_rates(spec: StateSpec) -> None:
    """Presence is public, or a report is a bit of every cell."""
    replica = Replica(spec)
    assert replica.presence is None
    assert replica.memory()["presence"] == 0
    assert not [name for name in replica.model_arrays() if name.startswith("presence")]
    assert Replica(ALL).memory()["presence"] > 0


def test_a_report_is_decoded_under_its_own_mask() -> None:
    """The same report means "low" under one mask and "high" under the other."""
    errors = []
    for mask in (0b1000, 0b0001):
        replica = Replica(replace(ALL, held_out=0.0))
        event = Event(
            bytes(range(16)), 1, "partition:5:2", 0, ITEMS[:1],
            np.array([int(mask == 1)], np.uint8), masks=np.array([mask], np.uint16),
        )  # fmt: skip
        outcome = applied(replica, event)
        assert outcome.channels[0] == replica.channels.first[2] + mask
        errors.append(float(outcome.update.error[0]))
    assert errors[0] < 0 < errors[1]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"mechanisms": ()}, "allow-list is empty"),
        ({"mechanisms": SMALL.mechanisms * 2}, "twice"),
        ({"held_out": 0.6}, "0 .. 0.5"),
    ],
)
def test_an_invalid_spec_is_refused(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        replace(SMALL, **changes)  # type: ignore[arg-type]
