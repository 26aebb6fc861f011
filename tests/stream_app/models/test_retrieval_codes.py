"""The guarantees of a code: its direction improves with every flip."""

from __future__ import annotations

import numpy as np
import pytest

from research.coders import reconstruct, signs_of
from stream_app.models.retrieval.qolsh_index import Encoder, draw_frame
from tests.fixtures.vectors import sphere


@pytest.mark.parametrize(("factors", "bits"), [(8, 16), (33, 256), (1, 5), (7, 8), (128, 256)])
@pytest.mark.parametrize("kind", ["qr", "equal_norm"])
def test_the_frame_is_tight_and_of_equal_columns_where_asked(factors, bits, kind):
    frame = draw_frame(factors, bits, 1, kind)
    np.testing.assert_allclose(frame @ frame.T, np.eye(factors), atol=1e-12)
    if kind == "equal_norm":
        np.testing.assert_allclose((frame**2).sum(0), factors / bits, rtol=1e-6)


def test_with_fewer_bits_than_factors_the_frame_is_orthonormal_and_no_bit_flips():
    frame = draw_frame(20, 12, 1, "equal_norm")
    np.testing.assert_allclose(frame.T @ frame, np.eye(12), atol=1e-12)
    vectors = sphere(100, 20)
    plain, greedy = (Encoder(20, 12, flips).encode(vectors) for flips in (0, 10))
    assert plain.words.tolist() == greedy.words.tolist()


@pytest.mark.parametrize("frame", ["qr", "equal_norm", "gaussian"])
def test_without_flips_a_code_is_the_signs_of_the_projection(frame):
    encoder = Encoder(8, 40, 0, frame=frame)
    vectors = sphere(2000, 8)
    projections = vectors.astype(np.float64) @ encoder._W.astype(np.float64)
    clear = np.abs(projections) > 1e-6
    signs = signs_of(encoder, encoder.encode(vectors))
    assert (signs == np.where(projections >= 0, 1, -1))[clear].all()


@pytest.mark.parametrize(("factors", "bits"), [(8, 16), (33, 256), (3, 70)])
def test_the_objective_never_falls_from_flip_to_flip(factors, bits):
    vectors = sphere(3000, factors)
    before = np.full(len(vectors), -1.0)
    for flips in (0, 1, 2, 3, 5, 10, 30, 100):
        encoder = Encoder(factors, bits, flips)
        codes = encoder.encode(vectors)
        now = (vectors * reconstruct(encoder, codes)).sum(axis=1)
        assert (now >= before).all()
        np.testing.assert_allclose(codes.objectives, now, atol=2e-5)
        before = now


@pytest.mark.parametrize(("factors", "bits"), [(8, 16), (8, 60), (5, 100)])
def test_more_starts_are_never_worse(factors, bits):
    vectors = sphere(500, factors)
    before = np.full(len(vectors), -1.0)
    for starts in (1, 2, 4, 16, 64):
        codes = Encoder(factors, bits, 5, starts=starts).encode(vectors)
        assert (codes.objectives >= before * (1 - 1e-6)).all()
        before = codes.objectives
    assert before.mean() > Encoder(factors, bits, 5).encode(vectors).objectives.mean()


def test_a_code_depends_on_the_direction_only_and_the_length_is_kept_beside_it():
    vectors = sphere(500, 8)
    scale = np.exp2(np.arange(500) % 60 - 30).astype(np.float32)[:, None]
    encoder = Encoder(8, 64)
    unit, scaled = encoder.encode(vectors), encoder.encode(vectors * scale)
    assert unit.words.tolist() == scaled.words.tolist()
    np.testing.assert_allclose(scaled.norms, scale[:, 0], rtol=1e-6)


def test_a_zero_vector_has_the_code_of_all_ones_and_is_flagged():
    vectors = sphere(3, 8)
    vectors[1] = 0
    codes = Encoder(8, 70).encode(vectors)
    assert (codes.norms == 0).tolist() == [False, True, False]
    assert codes.words[1].tolist() == [2**64 - 1, 2**6 - 1]
    assert codes.objectives[1] == 0


@pytest.mark.parametrize("bits", [40, 256])
def test_a_code_does_not_depend_on_its_neighbours(bits):
    vectors = sphere(50, 33)
    encoder = Encoder(33, bits)
    together = encoder.encode(vectors).words
    assert together.tolist() == [encoder.encode(v[None]).words[0].tolist() for v in vectors]


@pytest.mark.parametrize(
    "arguments",
    [
        (0, 8),
        (4097, 8),
        (8, 0),
        (8, 4097),
        (8, 8, -1),
        (8, 8, 1, 1, "random"),
        (8, 8, 1, 1, "qr", 0),
        (8, 2, 1, 1, "qr", 5),
        (8, 200, 1, 1, "qr", 65_537),
    ],
)
def test_a_vector_that_cannot_be_encoded_is_refused(arguments):
    with pytest.raises(ValueError, match=r"use|must"):
        Encoder(*arguments)


def test_vectors_of_another_shape_are_refused():
    with pytest.raises(ValueError, match=r"use \(n, 8\)"):
        Encoder(8).encode(np.zeros((2, 7), np.float32))
