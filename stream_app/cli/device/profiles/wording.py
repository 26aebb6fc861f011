"""Sentences of `murmurec profiles`: what is protected, public and spent."""

from __future__ import annotations

from collections.abc import Iterator

from producers.person.enrolment import PersonBudget
from stream_app.cli.device.wording import LARGE_PER_RATING, likelihood_factor
from stream_app.privacy.accounting.profile_cap import profile_cost
from stream_app.privacy.accounting.whole_person import sum_cost
from stream_app.privacy.profiles.blip import Blip
from stream_app.privacy.profiles.jlt import JltPaper
from stream_app.privacy.profiles.mechanism import MOST_ITEMS, ProfileMechanism

PUBLIC = "that a pseudonym takes part, and the day; every profile has the same size"
# Above this fraction of flipped bits, fewer hashes carry much more information.
_MANY_FLIPS = 1 / 3


def profile_notices(mechanism: ProfileMechanism, most: int) -> Iterator[str]:
    """Yield what is protected, public and spent, and the warnings; `most`: items of the largest
    profile."""
    epsilon = mechanism.epsilon
    if epsilon is None:
        yield f"protected  nothing: the profiles themselves are sent ({mechanism.id})"
        yield f"public     {PUBLIC}"
        yield "warning: nothing is protected: every reader of the topic can test every item"
        return
    beyond = f", except with probability {float(mechanism.delta):.0e}" if mechanism.delta else ""
    yield (
        f"protected  whether an item is in a profile: no release is more than e^{epsilon} = "
        f"{likelihood_factor(epsilon)} times likelier with the item than without it{beyond} "
        f"({mechanism.id}, adjacency: {mechanism.adjacency})"
    )
    yield f"public     {PUBLIC}"
    if mechanism.most < MOST_ITEMS:
        yield (
            f"cap        {mechanism.most} items of a profile at most, the first in a public order: "
            f"a whole profile of any size costs {_whole(mechanism)}"
        )
    total = sum_cost(mechanism.id, most)[0]
    yield (
        f"in sum     every release costs {epsilon} again; the largest profile, of {most} items, "
        f"differs from an empty one by an epsilon of up to {float(total):g}"
    )
    if epsilon > LARGE_PER_RATING:
        yield (
            f"warning: epsilon {epsilon} is above {LARGE_PER_RATING} per item: much of a profile "
            "can be reconstructed"
        )
    if isinstance(mechanism, Blip) and mechanism.hashes > 1 and mechanism.flip > _MANY_FLIPS:
        yield (
            f"warning: {float(mechanism.flip):.0%} of the bits are flipped, which leaves little "
            f"information: give --hashes below {mechanism.hashes}, at the same epsilon"
        )
    if isinstance(mechanism, JltPaper):
        yield (
            "warning: jltpaper repeats the noise of the thesis, which is more than its claim "
            "needs: jlt has the same guarantee with less"
        )


def _whole(mechanism: ProfileMechanism) -> str:
    """Return what one profile costs the whole person at the default delta."""
    delta = PersonBudget().delta
    return f"a person ({profile_cost(mechanism, delta):.3g}, {float(delta):g}) at most"
