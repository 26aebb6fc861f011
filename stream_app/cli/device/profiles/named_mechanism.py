"""The mechanism of profiles that the command line names."""

from __future__ import annotations

from functools import partial

from producers.person.enrolment import LARGEST_DELTA, PersonBudget
from stream_app.cli.output import refusing
from stream_app.errors import UsageError
from stream_app.privacy.accounting.profile_cap import within
from stream_app.privacy.profiles import profile_registry as profiles
from stream_app.privacy.profiles.profile_mechanism import ProfileMechanism


def mechanism_of(
    name: str,
    epsilon: str | None = None,
    length: int | None = None,
    hashes: int | None = None,
    delta: str | None = None,
    most: int | None = None,
) -> ProfileMechanism:
    """Return the mechanism of a family and its options, or of a whole id.

    Without `most`, its cap is the largest with which a profile fits a person's default budget.
    """
    options: dict[str, object] = {"--epsilon": epsilon, "--length": length, "--hashes": hashes}
    options |= {"--delta": delta, "--items-most": most}
    given = [option for option, value in options.items() if value is not None]
    with refusing(UsageError):
        if ":" in name:
            if given:
                raise UsageError(f"{name} contains {given[0][2:]}; leave {', '.join(given)} out")
            return profiles.parse(name)
        if hashes is not None and name != "blip":
            raise UsageError(f"--hashes {hashes}: only blip has hashes; leave --hashes out")
        made = partial(
            profiles.mechanism,
            name,
            "2" if epsilon is None else epsilon,
            length=length,
            hashes=profiles.DEVICE_HASHES if hashes is None else hashes,
            delta=delta,
        )
        if most is not None:
            return made(most=most)
        budget = PersonBudget()
        assert budget.epsilon is not None
        return within(made, budget.epsilon, budget.delta)


def check_delta(mechanism: ProfileMechanism, *, reproduction: bool) -> None:
    """Refuse a delta that is no protection, unless for a reproduction."""
    delta = mechanism.delta
    if delta and delta > LARGEST_DELTA and not reproduction:
        raise UsageError(
            f"{mechanism.id}: its delta {delta} is above {LARGEST_DELTA}, the probability that a "
            "release protects nothing: choose jlt with a smaller --delta, or give --reproduction"
        )


def check_allowed(mechanism: ProfileMechanism, allowed: tuple[str, ...]) -> None:
    """Refuse a mechanism that workers reject, where the settings name those that they take."""
    if allowed and mechanism.id not in {profiles.parse(name).id for name in allowed}:
        raise UsageError(
            f"{mechanism.id} is not in profile_mechanisms, so workers would reject it: give "
            f"--mechanism {' or '.join(allowed[:3])}, or allow {mechanism.id} there and on every "
            "worker (a cap of items is part of the id)"
        )
