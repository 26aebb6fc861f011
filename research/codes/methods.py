"""Every coder by name, as in table 5.1 of Balu 2016.

lsh              signs of independent projections
lsh_frame        signs of the projections of a tight frame
anti_sparse      signs of the representation of least magnitude
qolsh            signs, then flips that bring the code nearer
qolsh_16         the same from 16 starts
optimal          the best of all codes, up to 16 bits
"""

from __future__ import annotations

from research.codes.anti_sparse import AntiSparseCoder
from research.codes.exhaustive import ExhaustiveCoder
from stream_app.models.retrieval.frame_codes import Frame, FrameCoder
from stream_app.models.retrieval.qolsh_codes import Encoder

CODERS = ("lsh", "lsh_frame", "anti_sparse", "qolsh", "qolsh_16", "optimal")


def coder(
    name: str, factors: int, bits: int, flips: int = 10, seed: int = 1, frame: Frame = "equal_norm"
) -> FrameCoder:
    """Return the coder of that name; `flips` are of qoLSH alone, `frame` of all but LSH."""
    match name:
        case "lsh":
            return Encoder(factors, bits, 0, seed, "gaussian")
        case "lsh_frame":
            return Encoder(factors, bits, 0, seed, frame)
        case "anti_sparse":
            return AntiSparseCoder(factors, bits, seed, frame)
        case "qolsh" | "qolsh_16":
            return Encoder(factors, bits, flips, seed, frame, 16 if name == "qolsh_16" else 1)
        case "optimal":
            return ExhaustiveCoder(factors, bits, seed, frame)
    raise ValueError(f"coder {name!r}: use {', '.join(CODERS)}")
