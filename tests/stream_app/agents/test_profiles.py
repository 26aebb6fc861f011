"""Profiles that a worker reads: what counts, what is rejected, and the lists that they make."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray

from stream_app.agents.profiles.profile_reading import OUTCOMES, ProfileIntake
from stream_app.agents.profiles.profile_service import (
    ALONE,
    BUSY,
    READING,
    NeighbourAnswers,
    guarantee_of,
)
from stream_app.agents.queries import replies
from stream_app.agents.runtime import Runtime
from stream_app.deployment import profile_mechanisms_from
from stream_app.errors import UserError
from stream_app.models.neighborhood.live_profiles import LiveProfiles
from stream_app.privacy.profiles.blip import Blip
from stream_app.privacy.profiles.jlt import Jlt
from stream_app.privacy.profiles.profile_mechanism import ProfileMechanism
from stream_app.privacy.randomness import SeededSource
from stream_app.serving.catalogue import Catalogue
from stream_app.serving.ranked_items import RankedItems, Refused
from stream_app.settings import Settings
from stream_app.wire import (
    LIST_LENGTH,
    CatalogueEntry,
    Forget,
    ProfileEvent,
    Reason,
    Recommendation,
    decode_message,
    encode_message,
    encode_profile,
)
from tests.stream_app.agents.lines import a_runtime, runtime_alone

BLIP = Blip(1000, 2, Fraction(20))
JLT = Jlt(400, Fraction(16), Fraction(1, 10**6))
ITEMS = np.arange(40, dtype=np.uint64)


def record(
    number: int, items: np.ndarray = ITEMS, made: ProfileMechanism = BLIP, **changed: object
) -> tuple[bytes, bytes]:
    contents = made.release(items, SeededSource(number)).tobytes()
    fields = {"seq": 1, "mechanism": made.id, "epoch": 20_000, "profile": contents, **changed}
    event = ProfileEvent(number.to_bytes(16, "big"), **fields)  # type: ignore[arg-type]
    return event.key, encode_profile(event)


def intake(most: int = 100) -> ProfileIntake:
    return ProfileIntake(LiveProfiles((BLIP, JLT), most, 7), accept_tests=False)


BAD = {
    Reason.EMPTY: (b"1" * 32, b""),
    Reason.MALFORMED: (b"1" * 32, b"\xff" * 50),
    Reason.TOO_LARGE: (b"1" * 32, b"\x00" * 100_000),
    Reason.KEY_MISMATCH: (record(2)[0], record(1)[1]),
    Reason.MECHANISM_NOT_ALLOWED: record(1, made=Blip(1000, 2, None)),
    Reason.LENGTH_MISMATCH: record(1, profile=b"\x00" * 126),
    Reason.TEST_EVENT: record(1, test=True),
}


def test_every_record_is_counted_once_and_bad_ones_by_their_reason() -> None:
    found = intake()
    for reason, bad in BAD.items():
        assert found.take(*bad) == reason
    assert found.take(None, None) == found.take(b"not a pseudonym", None) == Reason.EMPTY
    for seq in (3, 3, 2, 2**62):
        assert found.take(*record(1, seq=seq)) is None
    assert found.take(record(1)[0], None) is None
    summary = found.summary()
    assert (summary["devices"], summary["complete"]) == (0, False)
    counts = {outcome: summary[outcome] for outcome in OUTCOMES}
    assert counts == {
        **{"applied": 2, "duplicate": 1, "older": 1, "reused": 0, "no_room": 0},
        **{"removed": 1, "rejected": 9},
    }
    assert summary["read"] == sum(counts.values()) == len(BAD) + 2 + 5
    assert sum(summary["reasons"].values()) == 9
    assert summary["reasons"]["empty"] == 3


def test_a_forgotten_device_is_dropped_and_stays_out() -> None:
    found = intake()
    found.take(*record(1))
    found.take(*record(2))
    found.forget([(1).to_bytes(16, "big")])
    assert found.summary()["devices"] == 1
    assert found.take(*record(1, seq=9)) == Reason.FORGOTTEN
    assert found.take(*record(2, seq=9)) is None


def test_random_bytes_are_rejected_and_nothing_else_happens() -> None:
    found, rng = intake(), np.random.default_rng(3)
    good = bytearray(record(1)[1])
    for _ in range(300):
        hurt = bytearray(good)
        hurt[rng.integers(60)] = rng.integers(256)  # of the fields before the profile
        found.take(record(1)[0], bytes(hurt))
        found.take(b"1" * 32, rng.bytes(int(rng.integers(1, 200))))
    assert found.summary()["devices"] <= 1
    assert found.summary()["rejected"] >= 300


# --- lists ----------------------------------------------------------------------------------------


def asked(runtime: Runtime, found: ProfileIntake, number: int) -> RankedItems | Refused:
    async def main() -> RankedItems | Refused:
        answers = NeighbourAnswers(found, runtime.replica, runtime.catalogue, runtime.metrics)
        try:
            made = answers.answer(number.to_bytes(16, "big"), 0.0)
            return await made if isinstance(made, Awaitable) else made
        finally:
            answers.close()

    return asyncio.run(main())


@pytest.fixture(scope="module")
def runtime() -> Runtime:
    runtime = runtime_alone()
    for item in ITEMS.tolist():
        entry = CatalogueEntry(item, withdrawn=item == 3)
        runtime.catalogue.learn(str(item).encode(), encode_message(entry))
    return runtime


def two_tastes(made: ProfileMechanism = BLIP) -> ProfileIntake:
    found = intake()
    for number in range(1, 61):
        found.take(*record(number, ITEMS[:20] if number % 2 else ITEMS[20:], made))
    found.complete = True
    return found


@pytest.mark.parametrize("made", [BLIP, JLT], ids=str)
def test_a_list_holds_what_similar_devices_have_and_states_its_guarantee(
    runtime: Runtime, made: ProfileMechanism
) -> None:
    found = asked(runtime, two_tastes(made), 1)
    assert isinstance(found, RankedItems)
    assert len(found.items) == min(LIST_LENGTH, 39)
    assert 3 not in found.items  # withdrawn
    assert (found.items[:10] < 20).mean() > 0.8
    assert (np.diff(found.scores) <= 0).all()
    assert 0 <= found.scores.min() <= found.scores.max() <= 1
    assert found.method == f"neighbours/{made.id}"
    assert found.guarantee is not None
    assert found.guarantee.epsilon == str(made.epsilon)
    assert ("delta of 1/1000000" in found.guarantee.adjacency) == (made is JLT)
    reply = replies.recommendation(runtime, "0" * 16, found)
    value = replies.encoded_reply(reply, runtime.catalogue)
    assert len(value) == replies.reply_bytes(runtime.catalogue)
    assert decode_message(Recommendation, value).guarantee == found.guarantee


def test_a_list_holds_no_pseudonym(runtime: Runtime) -> None:
    found = asked(runtime, two_tastes(), 1)
    assert isinstance(found, RankedItems)
    value = replies.encoded_reply(
        replies.recommendation(runtime, "f" * 16, found), runtime.catalogue
    )
    for number in range(1, 21):
        assert number.to_bytes(16, "big").hex().encode() not in value


def test_the_longest_guarantee_fits_in_a_reply(runtime: Runtime) -> None:
    made = Jlt(8, Fraction(63_999_999, 10**6), Fraction(10**12 - 1, 10**12), 9999)
    guarantee = guarantee_of(made)
    items, scores = ITEMS, np.ones(len(ITEMS))
    found = RankedItems(items, scores, f"neighbours/{made.id}", 2**60, guarantee=guarantee)
    reply = replies.recommendation(runtime, "f" * 64, found)
    assert len(replies.encoded_reply(reply, runtime.catalogue)) == replies.reply_bytes(
        runtime.catalogue
    )


def test_a_list_without_noise_claims_nothing() -> None:
    assert guarantee_of(Blip(1000, 2, None)) is None


def test_what_cannot_be_answered_is_refused_in_words(runtime: Runtime) -> None:
    found = intake()
    assert asked(runtime, found, 1) == Refused(READING)
    found.complete = True
    nothing = asked(runtime, found, 1)
    assert isinstance(nothing, Refused)
    assert "no profile of this device" in nothing.reason
    assert BLIP.id in nothing.reason
    found.take(*record(1))
    found.take(*record(2, made=JLT))
    assert asked(runtime, found, 1) == Refused(ALONE)
    for reason in (nothing.reason, READING, ALONE, BUSY):
        replies.encoded_refusal(runtime, "0" * 16, replies.Status.REFUSED, reason)


def test_more_queries_than_may_wait_are_refused(runtime: Runtime) -> None:
    found = two_tastes()

    async def main() -> None:
        answers = NeighbourAnswers(found, runtime.replica, runtime.catalogue, runtime.metrics)
        device = (1).to_bytes(16, "big")
        with found.held():  # the thread waits
            made = [answers.answer(device, 0.0) for _ in range(20)]
            waiting = [each for each in made if isinstance(each, Awaitable)]
            assert made[len(waiting) :] == [Refused(BUSY)] * (20 - len(waiting))
            assert 1 <= len(waiting) < 20
            tasks = [asyncio.ensure_future(each) for each in waiting]
            await asyncio.sleep(0)
        lists = await asyncio.gather(*tasks)
        assert all(isinstance(each, RankedItems) for each in lists)
        assert isinstance(answers.answer(device, 0.0), Refused) is False
        answers.close()

    asyncio.run(main())


class WatchedCatalogue(Catalogue):
    """Notes the thread that looks up withdrawn items."""

    looked: int = 0

    def withdrawn(self, keys: NDArray[np.uint64]) -> NDArray[np.bool_]:
        self.looked = threading.get_ident()
        return super().withdrawn(keys)


def test_the_event_loop_does_not_merge_the_items_that_devices_make_up(runtime: Runtime) -> None:
    found, catalogue = two_tastes(), WatchedCatalogue(dict(runtime.catalogue.entries))

    async def main() -> None:
        answers = NeighbourAnswers(found, runtime.replica, catalogue, runtime.metrics)
        made = answers.answer((1).to_bytes(16, "big"), 0.0)
        assert isinstance(made, Awaitable)
        assert isinstance(await made, RankedItems)
        answers.close()

    asyncio.run(main())
    assert catalogue.looked not in (0, threading.get_ident())


def test_a_forgotten_device_loses_its_profile_with_its_state() -> None:
    async def main() -> None:
        runtime, line = a_runtime()
        line.checkpoints.close()
        found = runtime.profiles = intake()
        found.take(*record(1))
        runtime.forget(Forget((1).to_bytes(16, "big").hex(), False))
        assert found.summary()["devices"] == 0
        assert found.take(*record(1)) == Reason.FORGOTTEN

    asyncio.run(main())


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"profile_mechanisms": ("rr:5:2",)}, "profile_mechanisms: profile mechanism"),
        ({"profile_mechanisms": ("blip:5000:2:0",)}, "bits are uniform at epsilon 0"),
        ({"profile_mechanisms": ("blip:05000:2:8",)}, "an id is|canonical"),
        ({"profile_mechanisms": (BLIP.id,), "devices": "signed"}, "carry no signature"),
    ],
)
def test_mechanisms_that_a_worker_cannot_use_are_refused(
    settings: dict[str, object], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        profile_mechanisms_from(Settings(**settings))  # type: ignore[arg-type]
    assert profile_mechanisms_from(Settings()) == ()
