"""A learner over the sanitized ratings of a file, and how well it predicts the true ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from producers.datasets.load import Dataset
from producers.scale import Scale
from stream_app import evaluation, wire
from stream_app.cli import output
from stream_app.cli.device.mechanism_options import mechanism_from
from stream_app.errors import UsageError, UserError
from stream_app.evaluation import EvaluationResult
from stream_app.models.factorization.channels import Channels
from stream_app.models.factorization.factory import build
from stream_app.models.factorization.learner import Learner, LearnerSpec
from stream_app.models.factorization.presence_rates import PresenceRates
from stream_app.privacy import registry
from stream_app.privacy.mechanism import Mechanism
from stream_app.privacy.randomness import SeededSource

_CELL_BYTES = 4
_SCOPE = 300
_PRESENCE_BYTES = 4 << 20


@dataclass(frozen=True)
class EvaluationOptions:
    """What is measured, besides the data and the mechanism."""

    protocol: str | None
    model: str
    factors: int
    depth: int
    scope: int | None
    choice: str
    seed: int

    def __post_init__(self) -> None:
        if self.protocol not in (None, "prequential", "one-pass"):
            raise UsageError(f"--protocol {self.protocol}: choose prequential or one-pass")
        if self.choice not in ("items", "leaning"):
            raise UsageError(f"--choice {self.choice}: choose items or leaning")
        if not 0 <= self.seed < 2**63:
            raise UsageError(f"--seed {self.seed}: give a number from 0 to 2^63-1")


def mechanism_for(name: str, epsilon: str | None, thinning: str | None, scale: Scale) -> Mechanism:
    """Return the mechanism of a family's name and the other options, or of a whole id."""
    if ":" not in name:
        return mechanism_from(name, epsilon, scale, thinning)
    if epsilon is not None or thinning is not None:
        raise UsageError(
            f"--mechanism {name}: an id holds epsilon and thinning; leave the others out"
        )
    try:
        found = registry.parse(name)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if found.levels != scale.levels:
        raise UsageError(f"{found.id}: the ratings have {scale.levels} levels ({scale})")
    return found


def measured(
    dataset: Dataset, mechanism: Mechanism, options: EvaluationOptions
) -> EvaluationResult:
    """Sanitize the data and measure a new learner on them."""
    run = _Run(dataset, mechanism, options)
    try:
        return run.over_scope() if run.hides else run.over_ratings()
    except ValueError as error:
        raise UserError(str(error)) from None


class _Run:
    """The columns of a data set, and a learner of the size that they need."""

    def __init__(self, dataset: Dataset, mechanism: Mechanism, options: EvaluationOptions) -> None:
        self.mechanism, self.options = mechanism, options
        self.hides = mechanism.inputs > mechanism.levels
        if self.hides and options.protocol == "prequential":
            raise UsageError(
                f"{mechanism.id}: whole scopes are sent at the end of an epoch, in no order of "
                "ratings; leave --protocol out"
            )
        self.users = user_keys(dataset.users)
        self.items = item_keys(dataset.items)
        self.levels, values = dataset.levels, dataset.scale.values
        truth = evaluation.TrueRatings(dataset.ratings, float(values[0]), float(values[-1]))
        self.events = evaluation.EvaluationData(self.users, self.items, truth)
        self.people, catalogue = len(np.unique(self.users)), len(np.unique(self.items))
        self.scope = min(_SCOPE, catalogue) if options.scope is None else options.scope
        if self.hides and not 1 <= self.scope <= catalogue:
            raise UsageError(
                f"--scope {self.scope}: the ratings are of {catalogue} items; give 1 to {catalogue}"
            )
        self.entities = self.people + (self.scope if self.hides else catalogue)
        self.channels = Channels.from_mechanisms([mechanism])
        self.source = SeededSource(options.seed)

    def over_scope(self) -> EvaluationResult:
        """Measure one pass over every cell of the public scope."""
        seed = self.options.seed
        presence = PresenceRates(self.channels, _PRESENCE_BYTES, seed)
        devices = evaluation.ScopeDevices(self.levels, self.mechanism, self.source, self.scope)
        with output.progress("learning") as advance:
            return evaluation.evaluate_scope(
                self.events,
                devices,
                self._learner(),
                presence,
                seed=seed,
                progress=_counted(advance, self.people * self.scope),
            )

    def over_ratings(self) -> EvaluationResult:
        """Measure the predictions of the ratings, by the protocol of the options."""
        mechanism, options = self.mechanism, self.options
        devices: evaluation.Devices
        if mechanism.masks:
            columns = self.channels, self.users, self.items, self.levels, self.source
            user_bias = options.choice == "leaning"
            devices = evaluation.AdaptiveDevices(mechanism, *columns, user_bias=user_bias)
        else:
            devices = evaluation.FixedReports(mechanism.release(self.levels, self.source))
        with output.progress("learning") as advance:
            return evaluation.evaluate(
                self.events,
                devices,
                self._learner(),
                protocol=options.protocol or "prequential",
                mechanism=mechanism.id,
                epsilon=None if mechanism.epsilon is None else float(mechanism.epsilon),
                seed=options.seed,
                progress=_counted(advance, len(self.users)),
            )

    def _learner(self) -> Learner:
        options = self.options
        spec = LearnerSpec(
            factors=options.factors,
            depth=options.depth,
            # At least a vector in each row, however few the users and items are.
            sketch_bytes=max(self.entities, options.depth) * options.factors * _CELL_BYTES,
            scalars_bytes=max(64, 64 * self.entities),
            seed=options.seed,
        )
        try:
            return build(options.model, self.channels, spec)
        except ValueError as error:
            raise UsageError(str(error)) from None


def item_keys(ids: NDArray[np.int64] | NDArray[np.str_]) -> NDArray[np.uint64]:
    """Return the key of each item of a data set, (n,)."""
    names, rows = np.unique(ids, return_inverse=True)
    return np.array([wire.key(name) for name in names.tolist()], np.uint64)[rows]


def user_keys(ids: NDArray[np.int64] | NDArray[np.str_]) -> NDArray[np.uint64]:
    """Return a key for each user of a data set, (n,): an id may be negative or a long text."""
    names, rows = np.unique(ids, return_inverse=True)
    return np.array([_user_key(name) for name in names.tolist()], np.uint64)[rows]


def _user_key(user: int | str) -> int:
    if isinstance(user, int) and user >= 0:
        return user
    digest = blake2b(str(user).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") | (1 << 63)


def _counted(advance: output.Advance, total: int) -> Callable[[int], None]:
    """Return the progress function of an evaluation, which takes the events of each step."""
    done = 0

    def add(events: int) -> None:
        nonlocal done
        done += events
        advance(done, total)

    return add


def show(result: EvaluationResult, scale: str) -> None:
    """Print a result as a table."""
    rows = []
    if result.scope:
        rows.append(("public scope", f"the {result.scope:,} most rated items of the file"))
        rows.append(("cells sent / published", f"{result.cells:,} / {result.learned:,}"))
    rows += [
        ("ratings tested", f"{result.events:,}"),
        (f"RMSE ({scale})", f"{result.rmse:.4f}"),
        ("MAE", f"{result.mae:.4f}"),
        ("RMSE of the items' true means", f"{result.rmse_baseline:.4f}"),
        (
            f"{'cells' if result.scope else 'ratings'} per CPU second",
            f"{result.events_per_second:,.0f}",
        ),
    ]
    title = f"{result.model}, {result.protocol}, {result.mechanism}"
    output.table(("", ""), rows, title=title)
