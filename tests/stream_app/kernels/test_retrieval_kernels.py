"""The retrieval kernels against the obvious versions; codes on whole numbers, exact in float32."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_app.kernels.retrieval import code_scan, qolsh
from stream_app.kernels.retrieval import exact_scan as scan
from stream_app.kernels.retrieval import top_k as selection
from stream_app.models.retrieval.index import Ranker
from tests.naive import retrieval as naive

pytestmark = pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")

SCORES = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 3e38, -3e38, 1e-45]), st.floats(-9, 9, width=32)
)
SEEDS = st.integers(0, 2**32 - 1)


@settings(deadline=None)
@given(
    scores=st.lists(SCORES, max_size=60),
    count=st.integers(-1, 70),
    salt=st.integers(0, 2**64 - 1),
    shift=st.integers(0, 2**31),
)
def test_the_best_are_those_of_a_full_sort(scores, count, salt, shift):
    array = np.array(scores, np.float32)
    names = [i + shift for i in range(len(scores))]
    ranker = Ranker(salt)
    assert ranker.ranking(array, count).tolist() == naive.top(array, count, salt)
    named = ranker.ranking(array, count, np.array(names, np.int64))
    assert named.tolist() == naive.top(array, count, salt, names)
    assert sorted(ranker.best(array, count)) == sorted(naive.top(array, count, salt))


@settings(deadline=None, max_examples=25)
@given(
    seed=SEEDS,
    n=st.integers(2000, 9000),
    count=st.sampled_from([1, 10, 100, 1500]),
    shape=st.sampled_from(["smooth", "ties", "sorted", "misleading sample"]),
)
def test_the_best_of_many_do_not_depend_on_the_sample(seed, n, count, shape):
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal(n).astype(np.float32)
    if shape == "ties":
        scores = np.round(scores)
    elif shape == "sorted":
        scores.sort()
    elif shape == "misleading sample":
        scores[:: n // 1024] += 100
    order = np.lexsort((-np.array([naive.tie(i, 7) for i in range(n)]), -scores.astype(float)))
    assert Ranker(7).ranking(scores, count).tolist() == order[:count].tolist()


def test_the_threshold_of_the_sample_is_in_use_for_many_scores():
    scores = np.random.default_rng(1).standard_normal(100_000).astype(np.float32)
    scratch = np.empty(100_008, np.int64), np.empty(100_008, np.uint64)
    threshold = selection._threshold(scores, scores.view(np.int32), 100, *scratch)
    assert 100 < (scores >= threshold).sum() < 3000


@settings(deadline=None)
@given(seed=SEEDS, n=st.integers(1, 1100), factors=st.integers(1, 9))
def test_both_layouts_give_the_score_added_from_left_to_right(seed, n, factors):
    rng = np.random.default_rng(seed)
    vectors = rng.standard_normal((n, factors)).astype(np.float32)
    biases = rng.standard_normal(n).astype(np.float32)
    p = rng.standard_normal(factors).astype(np.float32)
    everything, chosen = np.empty(n, np.float32), np.empty(n, np.float32)
    scan.scores(np.ascontiguousarray(vectors.T), biases, p, everything)
    scan.chosen(vectors, biases, np.arange(n), p, chosen)
    assert everything.tobytes() == chosen.tobytes()
    for row in {0, n // 2, n - 1}:
        assert everything[row] == naive.score(vectors[row], biases[row], p)


# Whole numbers whose length is a power of two: their units, and all sums below, are exact.
BASES = ([0, 0, 0, 0, 0], [2, 0, 0, 0, 0], [1, 1, 1, 1, 0], [3, 2, 1, 1, 1], [5, 5, 3, 2, 1])


@st.composite
def whole_vectors(draw):
    base = draw(st.permutations(draw(st.sampled_from(BASES))))
    return [x * draw(st.sampled_from([-1, 1])) for x in base]


def encoded(vectors, frame, flips, starts):
    """Return codes, |x|, |Wb| and L(b)."""
    n, bits = len(vectors), frame.shape[1]
    gram = np.zeros((bits, -(-bits // 16) * 16), np.float32)
    gram[:, :bits] = frame.T @ frame
    wide = np.zeros((len(frame), gram.shape[1]), np.float32)
    wide[:, :bits] = frame
    columns = np.zeros((bits, 16), np.float32)
    columns[:, : len(frame)] = frame.T
    diagonal = np.zeros(gram.shape[1], np.float32)
    diagonal[:bits] = np.diag(gram)
    codes = np.empty((n, -(-bits // 64)), np.uint64)
    rest = np.empty((3, n), np.float32)
    qolsh.encode(vectors, wide, columns, gram, diagonal, flips, starts, codes, *rest)
    return codes, *rest


@settings(deadline=None)
@given(
    vectors=st.lists(whole_vectors(), min_size=1, max_size=4),
    bits=st.integers(1, 70),
    flips=st.integers(0, 12),
    starts=st.sampled_from([1, 1, 2, 3, 8]),
    seed=SEEDS,
)
def test_the_greedy_code_is_that_of_trying_every_flip_from_scratch(
    vectors, bits, flips, starts, seed
):
    starts = min(starts, 2**bits)
    frame = np.random.default_rng(seed).integers(-2, 3, (5, bits)).astype(np.float32)
    array = np.array(vectors, np.float32)
    codes, norms, lengths, objectives = encoded(array, frame, flips, starts)
    for i, vector in enumerate(array):
        norm = np.sqrt((vector**2).sum())
        unit = vector / norm if norm else vector
        signs = naive.encode(unit, frame, flips, starts)
        assert codes[i].tolist() == naive.pack(signs)
        assert norms[i] == norm
        assert lengths[i] == np.float32(np.linalg.norm(frame @ signs))
        assert objectives[i] ** 2 == pytest.approx(naive.objective(unit, frame, signs), rel=1e-6)


@settings(deadline=None)
@given(seed=SEEDS, n=st.integers(1, 600), bits=st.integers(1, 400))
def test_the_estimate_from_two_codes_is_the_cosine_of_their_distance(seed, n, bits):
    rng = np.random.default_rng(seed)
    words = -(-bits // 64)
    signs = rng.integers(0, 2, (n + 1, bits))
    packed = np.array([naive.pack(row) for row in signs], np.uint64).reshape(n + 1, words)
    norms, biases = rng.random((2, n)).astype(np.float32)
    out = np.empty(n, np.float32)
    codes = np.ascontiguousarray(packed[:n].T)
    first = n // 3
    code_scan.from_codes(
        codes, packed[n], bits, norms, biases, np.float32(2), first, np.empty(n, np.int32)[first:],
        out[first:],
    )  # fmt: skip
    code_scan.from_codes(
        codes, packed[n], bits, norms, biases, np.float32(2), 0, np.empty(first, np.int32),
        out[:first],
    )  # fmt: skip
    distances = (signs[:n] != signs[n]).sum(axis=1)
    expected = biases + 2 * norms * np.cos(np.pi * distances / bits)
    np.testing.assert_allclose(out, expected, atol=3e-4)


@settings(deadline=None)
@given(seed=SEEDS, n=st.integers(1, 40), bits=st.integers(1, 300))
def test_the_estimate_from_a_projection_is_a_signed_sum(seed, n, bits):
    rng = np.random.default_rng(seed)
    words = -(-bits // 64)
    signs = rng.integers(0, 2, (n, bits)) * 2 - 1
    codes = np.ascontiguousarray(
        np.array([naive.pack(row) for row in signs], np.uint64).reshape(n, words).T
    )
    projection = rng.standard_normal(bits).astype(np.float32)
    scales, biases = rng.random((2, n)).astype(np.float32)
    sums, out = np.empty((8 * words, 256), np.float32), np.empty(n, np.float32)
    code_scan.byte_sums(projection, sums)
    rows = rng.permutation(n)
    code_scan.from_projection(codes, rows, sums, scales, biases, out)
    np.testing.assert_allclose(out, (biases + scales * (signs @ projection))[rows], atol=1e-4)


@settings(deadline=None)
@given(
    scores=st.lists(st.one_of(SCORES, st.sampled_from([np.nan, np.inf, -np.inf])), max_size=80),
    rank=st.integers(1, 90),
    salt=st.integers(0, 2**64 - 1),
)
def test_the_highest_are_those_of_a_full_sort_with_ties_up_to_as_many_again(scores, rank, salt):
    many = len(scores)
    values = np.full(many + code_scan.ROOM, 7, np.float32)
    values[:many] = scores
    places, rows = np.empty(many, np.int64), np.arange(many) + 5
    found = code_scan.highest(values, many, rank, rows, np.uint64(salt), places)
    assert values[:many].tobytes() == np.array(scores, np.float32).tobytes()
    seen = np.where(np.isnan(values[:many]), np.float32(np.inf), values[:many])
    expected = naive.top(seen, rank, salt, rows.tolist())
    assert places[:found].tolist() == sorted(places[:found].tolist())
    assert set(expected) <= set(places[:found].tolist())
    if found > rank:
        assert found <= 2 * rank
        assert (seen[places[:found]] >= seen[expected].min()).all()


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
@settings(deadline=None, max_examples=40)
@given(
    seed=SEEDS,
    n=st.integers(1, 9000),
    bits=st.sampled_from([3, 64, 100, 256]),
    shortlist=st.sampled_from([1, 30, 400]),
    shape=st.sampled_from(["smooth", "equal", "misleading sample", "overflow"]),
)
def test_the_shortlist_is_that_of_all_estimates(seed, n, bits, shortlist, shape):
    rng = np.random.default_rng(seed)
    words = -(-bits // 64)
    codes = rng.integers(0, 2**63, (words, n), np.uint64)
    codes[-1] &= np.uint64(2 ** (bits - 64 * (words - 1)) - 1)
    norms, biases = rng.random((2, n)).astype(np.float32)
    if shape == "equal":
        codes[:], norms[:], biases[:] = codes[:, :1], 1, 0
    elif shape == "misleading sample":
        biases[: n // 2] += 100
    elif shape == "overflow":
        norms[:: n // 7 + 1], biases[:: n // 7 + 1] = np.inf, -np.inf
    query, length = codes[:, n // 2].copy(), np.float32(2)
    every, scratch = np.empty(n, np.float32), np.empty(n, np.int32)
    given = codes, query, bits, norms, biases, length
    code_scan.from_codes(*given, 0, scratch, every)
    rows, places = np.empty((2, n + code_scan.ROOM), np.int64)
    values, sample = (
        np.empty(n + code_scan.ROOM, np.float32),
        np.empty(code_scan.SAMPLE, np.float32),
    )
    found = code_scan.shortlisted(*given, n, shortlist, np.uint64(7), sample, rows, places, values)
    every[np.isnan(every)] = np.inf
    order = np.lexsort((-np.array([naive.tie(i, 7) for i in range(n)]), -every.astype(float)))
    best = order[:shortlist]
    assert set(best) <= set(rows[:found])
    assert len(set(rows[:found])) == found <= max(2 * shortlist, len(best))
    assert (every[rows[:found]] >= every[best].min()).all()
