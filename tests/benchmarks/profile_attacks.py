"""What attacks find of released profiles, beside the claimed epsilon; and the speed of neighbours.

    synthetic   1,682 items; sizes log-normal (sigma .85, median 66), items without replacement by
                weights 1 / (1 + (rank / 440)^4); BLIP of K = 20 hashes, L = 5000 bits
    ML-100K     600 users known, the first of the others attacked       (Balu 2016, section 3.5.1)
    targets     within .03 of what was measured before on 24 other synthetic profiles, of 101 items
                on average and a law that is not known; the law here was chosen near it
    speed       10,000 profiles in a worker's table: one more, and one list for neighbours

cosine: mean over the attacked users. The difference of a figure and its reference is what a target
is about, so that a table of both can be read.
"""

from __future__ import annotations

import time
from fractions import Fraction

import numpy as np

from research.attacks.attacks import ATTACKS
from research.attacks.knowledge import Knowledge
from research.attacks.trials import Plan, Trial, tried
from research.papers.balu_2016_profiles import mechanisms, reconstructions
from stream_app.models.neighborhood.live_profiles import LiveProfiles
from stream_app.privacy.profiles.blip import Blip
from stream_app.privacy.profiles.jlt import Jlt
from stream_app.privacy.randomness import SeededSource
from tests.benchmarks.figure import Figure
from tests.fixtures import data_sets

ITEMS, TRAINED, ATTACKED = 1682, 600, 60
REFERENCE = {
    28: {"single": 0.933, "single+prior": 0.948, "slots prior": 0.970, "bits prior": 0.970},
    17: {"single": 0.706, "single+prior": 0.777, "slots prior": 0.818, "bits prior": 0.821},
    8: {"single": 0.287, "single+prior": 0.416, "slots prior": 0.422, "bits prior": 0.424},
}
REAL_EPSILONS = (28, 17, 8, 2)
PEOPLE = 12
HELD = 10_000


def measure() -> list[Figure]:
    """Return the tables of attacks, and the speeds."""
    return [*_synthetic(), *_real(), *_speeds()]


def population(users: int, random: np.random.Generator) -> list[np.ndarray]:
    """Return profiles: item keys (c,), the popular ones first."""
    weights = -np.log1p((np.arange(ITEMS) / 440) ** 4)
    sizes = np.exp(random.normal(np.log(66), 0.85, users))
    found = []
    for size in np.clip(np.rint(sizes), 3, ITEMS // 2).astype(int).tolist():
        drawn = weights + random.gumbel(size=ITEMS)
        found.append(np.sort(np.argpartition(-drawn, size)[:size]).astype(np.uint64))
    return found


def _synthetic() -> list[Figure]:
    profiles = population(TRAINED + ATTACKED, np.random.default_rng(1))
    catalogue = np.arange(ITEMS, dtype=np.uint64)
    knowledge = Knowledge.of_training(profiles[ATTACKED:], catalogue)
    figures = []
    for epsilon, reference in REFERENCE.items():
        mechanism = Blip(5000, 20, Fraction(epsilon))
        for each in tried(profiles[:ATTACKED], knowledge, mechanism, Plan()):
            figures += _rows("synthetic", each, reference.get(each.attack))
    return figures


def _real() -> list[Figure]:
    data = data_sets.load("ml-100k")
    if data is None:
        return [Figure("profile attacks: ML-100K skipped (set MURMUREC_DATA)", float("nan"), "")]
    attacks = tuple(each for each in ATTACKS if each != "slots paper")
    made = mechanisms(REAL_EPSILONS, (24, 6, 3))
    found = reconstructions(data, made=made, people=PEOPLE, plan=Plan(attacks))
    return [row for each in found for row in _rows("ML-100K", each, None)]


def _rows(data: str, trial: Trial, reference: float | None) -> list[Figure]:
    name = f"profile attacks: {data}, {trial.mechanism}, {trial.attack}"
    measured = trial.measured
    rows = [
        Figure(f"{name}, cosine", measured.cosine, ""),
        Figure(f"{name}, mAP@10", measured.map_at_10, ""),
    ]
    if reference is not None:
        apart = abs(measured.cosine - reference)
        rows.append(Figure(f"{name}, cosine apart from {reference}", apart, "", "<= 0.03"))
    return rows


def _speeds() -> list[Figure]:
    figures = []
    for made in (Blip(5000, 2, Fraction(8)), Jlt(1000, Fraction(8), Fraction(1, 10**6))):
        random = np.random.default_rng(3)
        live = LiveProfiles((made,), HELD, 1)
        released = made.release(np.arange(50, dtype=np.uint64), SeededSource(1))
        began = time.process_time()
        for number in range(HELD):
            other = random.permutation(released.reshape(-1, made.profile_bytes // 125), axis=0)
            live.put(number.to_bytes(16, "big"), 1, made.id, other.tobytes())
        taken = time.process_time() - began
        items, device = np.arange(3706, dtype=np.uint64), (7).to_bytes(16, "big")
        lists = []
        for number in range(5):
            live.put(device, number + 2, made.id, released.tobytes())  # what is cached is old
            began = time.process_time()
            live.scores(device, items, 50)
            lists.append(time.process_time() - began)
        name = f"profile attacks: {made.id}, {HELD:,} profiles held"
        figures.append(Figure(f"{name}, taken", HELD / taken, "profiles/s", ">= 1000"))
        figures.append(Figure(f"{name}, one list of 3,706", min(lists) * 1e3, "ms", "<= 150"))
    return figures
