"""One run of `murmurec profiles publish` over a population, its notices and its outcome."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from producers.datasets.load import load
from producers.device import scope as public_items
from producers.fleet.population import Population
from producers.fleet.profile_release import ProfileOptions, ProfileProgress, profiles_of, publish
from producers.identities import Identities
from producers.journal import Journal, Limits
from producers.person.enrolment import PersonBudget
from stream_app.cli.device import simulated_population as simulation
from stream_app.cli.device.mechanism_options import simulation_path, today
from stream_app.cli.device.publishers import profile_publisher_for
from stream_app.cli.device.wording import LARGE_PER_RATING, journal_notices, likelihood_factor
from stream_app.cli.output import notice, plural, refusing, show
from stream_app.errors import UserError
from stream_app.privacy.accounting.profile_cap import profile_cost
from stream_app.privacy.accounting.whole_person import sum_cost
from stream_app.privacy.profiles.blip import Blip
from stream_app.privacy.profiles.jlt import JltPaper
from stream_app.privacy.profiles.profile_mechanism import MOST_ITEMS, ProfileMechanism
from stream_app.settings import Settings

if TYPE_CHECKING:
    from stream_app.cli.device.profiles import ProfileCommandOptions

_PUBLIC = "that a pseudonym takes part, and the day; every profile has the same size"
# Above this fraction of flipped bits, fewer hashes carry much more information.
_MANY_FLIPS = 1 / 3
# The field of a progress -> its name in JSON.
_ROW = {
    **{"total": "devices", "published": "published", "before": "published_before"},
    **{"over": "over_budget", "outside": "outside_scope", "capped": "capped"},
}


def publish_file(options: ProfileCommandOptions, settings: Settings, *, as_json: bool) -> None:
    """Publish the profiles of a file's users and print the outcome."""
    chosen = options.mechanism(settings.profile_mechanisms)
    budget, limits = options.budget, Limits(trust_clock=options.trust_clock)
    dataset = load(options.file, options.scale)
    items = None if options.scope is None else public_items.from_file(options.scope)
    path = simulation_path(settings, options.journal)
    publisher = profile_publisher_for(settings)
    with Journal.open(path, limits=limits, test=options.test) as journal:
        identities = Identities(journal.key, signed=settings.signed)
        population = simulation.population_of(dataset, journal, identities)
        notices = profile_notices(chosen, population.most)
        for sentence in (*journal_notices(journal), *notices):
            notice(sentence)
        notice(simulation.enrolled_population(journal, population.devices, budget, today()))
        with refusing(UserError), simulation.sending(journal, publisher, "profile") as sent:
            last = _published(chosen, population, items, sent)
    row: dict[str, Any] = {shown: getattr(last, name) for name, shown in _ROW.items()}
    show(row | sent.row(chosen.id), [*_left_out(last), sent.sentence(chosen.id)], as_json=as_json)
    simulation.check_delivered(publisher, "profile", "the next publish")


def _published(
    mechanism: ProfileMechanism,
    population: Population,
    items: NDArray[np.uint64] | None,
    sent: simulation.Sending,
) -> ProfileProgress:
    """Publish every profile, of these items alone unless None; return the last step."""
    journal = sent.relay.journal
    steps = publish(
        profiles_of(population, journal.enrolled()),
        mechanism,
        journal=journal,
        send=sent.relay.send,
        topic=sent.relay.publisher.topic,
        epoch=today(),
        options=ProfileOptions(items),
        make_room=sent.relay.make_room,
    )
    last: ProfileProgress = simulation.last_step(
        steps, "profiles", lambda step: (step.done, step.total)
    )
    return last


def _left_out(last: ProfileProgress) -> Iterator[str]:
    for count, noun, reason in (
        (last.before, "device", "had released a profile in this epoch"),
        (last.over, "device", "over the budget of the whole person"),
        (last.outside, "item", "outside the scope: never in a profile"),
        (last.capped, "item", "left out by devices whose profile is full"),
    ):
        if count:
            yield f"{plural(count, noun)} {reason}"


def profile_notices(mechanism: ProfileMechanism, most: int) -> Iterator[str]:
    """Yield what is protected, public and spent, and the warnings; `most`: items of the largest
    profile."""
    epsilon = mechanism.epsilon
    if epsilon is None:
        yield f"protected  nothing: the profiles themselves are sent ({mechanism.id})"
        yield f"public     {_PUBLIC}"
        yield "warning: nothing is protected: every reader of the topic can test every item"
        return
    beyond = f", except with probability {float(mechanism.delta):.0e}" if mechanism.delta else ""
    yield (
        f"protected  whether an item is in a profile: no release is more than e^{epsilon} = "
        f"{likelihood_factor(epsilon)} times likelier with the item than without it{beyond} "
        f"({mechanism.id}, adjacency: {mechanism.adjacency})"
    )
    yield f"public     {_PUBLIC}"
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
