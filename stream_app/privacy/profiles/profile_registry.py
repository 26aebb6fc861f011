"""Profile mechanisms by name: from a wire id or typed options to the frozen value.

    blip:5000:20:8              Bloom filter of 5000 bits, 20 hashes, epsilon 8 per item
    jlt:1000:2:1/1000000        1000 projections, epsilon 2 and delta 10^-6 per item
    jltpaper:1000:2:1/10        the noise of Lemma 2 instead: a reproduction
    blip:5000:2:2:27            the same with a cap: at most 27 items of a profile are released,
    jlt:1000:2:1/1000000:16     which bounds what a whole profile costs (`mechanism.py`)
    blip:5000:20:inf, jlt:1000:inf:0    without noise: nothing is protected

An id is canonical, as those of rating mechanisms are: `parse` refuses `blip:05000:20:8`,
`blip:5000:20:16/2`, `jlt:1000:2:0.1` and a cap of 16384, which is that of an id without one.
"""

from __future__ import annotations

import re
from fractions import Fraction

from stream_app.privacy.parsing import Number, parse_fraction, shorten
from stream_app.privacy.profiles.blip import Blip
from stream_app.privacy.profiles.jlt import Jlt, JltPaper
from stream_app.privacy.profiles.profile_mechanism import MOST_ITEMS, ProfileMechanism

FAMILIES = ("blip", "jlt", "jltpaper")
DEFAULT_HASHES = 20
DEVICE_HASHES = 2  # fewer hashes flip fewer bits at the same epsilon; with 1, items collide
_DELTA = "a number, as 0.000001, 1e-6 or 1/1000000"
DEFAULT_DELTAS = {"jlt": Fraction(1, 10**6), "jltpaper": Fraction(1, 10)}
_EXACT = "[0-9]{1,13}(?:/[0-9]{1,13})?"
_CAP = "(?::([0-9]{1,5}))?"
_BLIP = re.compile(rf"blip:([0-9]{{1,6}}):([0-9]{{1,2}}):({_EXACT}|inf){_CAP}", re.ASCII)
_JLT = re.compile(rf"(jlt|jltpaper):([0-9]{{1,6}}):({_EXACT}|inf):({_EXACT}){_CAP}", re.ASCII)
_NUMBER = re.compile(r"[0-9]{1,13}(?:\.[0-9]{1,13}|/[0-9]{1,13})?|1e-[0-9]{1,2}", re.ASCII)


def parse(id: str) -> ProfileMechanism:
    """Return the profile mechanism that a canonical id names; ValueError for any other text."""
    text = id if isinstance(id, str) else ""
    found: ProfileMechanism
    if match := _BLIP.fullmatch(text):
        length, hashes, epsilon, cap = match.groups()
        most = MOST_ITEMS if cap is None else int(cap)
        found = mechanism("blip", epsilon, length=int(length), hashes=int(hashes), most=most)
    elif match := _JLT.fullmatch(text):
        family, length, epsilon, delta, cap = match.groups()
        most = MOST_ITEMS if cap is None else int(cap)
        found = mechanism(family, epsilon, length=int(length), delta=delta, most=most)
    else:
        raise ValueError(
            f"profile mechanism {shorten(id)}: an id is blip:length:hashes:epsilon or "
            "jlt:length:epsilon:delta, such as blip:5000:20:8 or jlt:1000:2:1/1000000"
        )
    if found.id != id:
        raise ValueError(f"profile mechanism {id!r}: not the canonical id; write {found.id!r}")
    return found


def mechanism(
    family: str,
    epsilon: Number | None,
    *,
    length: int | None = None,
    hashes: int = DEFAULT_HASHES,
    delta: Number | None = None,
    most: int = MOST_ITEMS,
) -> ProfileMechanism:
    """Return a family's mechanism; epsilon as "8", "0.5", "1/2", Fraction, or None for no noise.

    The default lengths are those of the thesis (Balu 2016, section 3.5.1): 5000 bits, 1000
    projections. The default delta is 10^-6, and 1/10 for `jltpaper`. `most`: the cap of items.
    Raises ValueError for an unknown family or a value out of range.
    """
    noisy = epsilon not in (None, "inf")
    wanted = "a number, as 8, 0.5 or 1/2"
    exact = parse_fraction(epsilon, _NUMBER, "epsilon", wanted) if noisy else None
    if family == "blip":
        if delta is not None:
            raise ValueError(f"delta {shorten(delta)}: blip has none; leave it out")
        return Blip(5000 if length is None else length, hashes, exact, most)
    if family in ("jlt", "jltpaper"):
        claimed = Fraction(0) if exact is None else DEFAULT_DELTAS[family]
        if delta is not None:
            claimed = parse_fraction(delta, _NUMBER, "delta", _DELTA)
        made = Jlt if family == "jlt" else JltPaper
        return made(1000 if length is None else length, exact, claimed, most)
    raise ValueError(f"profile mechanism {shorten(family)}: there are {', '.join(FAMILIES)}")
