"""A new mechanism is one class and one row: everything else takes it from the registry.

`Half` is the worked example of CONTRIBUTING.md. The row is added for one test at a time; each test
then uses a part of the system that has no entry of its own for the new family.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import pytest

from producers.scale import Scale
from research import privacy_page
from stream_app.cli.device import mechanism_options
from stream_app.cli.research import certify
from stream_app.deployment import spec_from_settings
from stream_app.models.factorization.channels import Channels
from stream_app.privacy import registry
from stream_app.privacy.exact.integer_tables import compiled_ratio
from stream_app.privacy.exact.table_mechanism import TableMechanism, Weights
from stream_app.privacy.mechanism import Mechanism
from stream_app.settings import Settings
from tests.stream_app.privacy import test_contract
from tests.stream_app.privacy.checks import departs
from tests.stream_app.privacy.mechanisms import name, of_families


@dataclass(frozen=True)
class Half(TableMechanism):
    """Report whether the level is in the upper half of the scale, flipped with probability q.

        P(z | v) = e^eps / (e^eps + 1)  for z = 1[2 v >= levels], else 1 / (e^eps + 1)

    Adjacency: value. Warner 1965, on one bit. Raises ValueError as every `TableMechanism`.

    >>> Half(5, Fraction(2)).id
    'half:5:2'
    """

    family: ClassVar[str] = "half"
    no_estimate: ClassVar[frozenset[str]] = frozenset({"value", "square"})
    limit: ClassVar[str] = "one bit a report: levels of one half are never distinguished"

    def _weights(self) -> Weights:
        ratio, unit = compiled_ratio(self.epsilon), Fraction(1)
        upper = [2 * v >= self.levels for v in range(self.levels)]
        return [[unit, ratio] if up else [ratio, unit] for up in upper]


NEW = of_families([Half])
CONTRACT = [
    function
    for title, function in vars(test_contract).items()
    if title.startswith("test_")
    and set(inspect.signature(function).parameters) <= {"mechanism", "seed"}
]


@pytest.fixture(autouse=True)
def row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add the one row."""
    monkeypatch.setattr(registry, "MECHANISMS", (*registry.MECHANISMS, Half))


@pytest.mark.parametrize("mechanism", NEW, ids=name)
@pytest.mark.parametrize("promise", CONTRACT, ids=lambda function: function.__name__)
def test_it_passes_the_contract(
    promise: Callable[..., None], mechanism: Mechanism, seed: int
) -> None:
    wanted = inspect.signature(promise).parameters
    promise(
        **{"mechanism": mechanism, "seed": seed} if "seed" in wanted else {"mechanism": mechanism}
    )


def test_the_contract_is_not_empty_and_notices_a_missing_word_about_estimates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert len(CONTRACT) >= 12
    monkeypatch.setattr(Half, "no_estimate", frozenset())
    with pytest.raises(AssertionError, match="no estimate of the value"):
        test_contract.test_the_estimates_are_unbiased_for_every_input_or_not_a_number(
            Half(5, Fraction(2))
        )


def test_what_is_released_has_its_distribution() -> None:
    """False alarm below 1e-6; another epsilon is noticed."""
    mechanism = Half(5, Fraction(2))
    assert not departs(mechanism, mechanism, 1e-6)
    assert departs(mechanism, Half(5, Fraction(4)), 1e-6)


@pytest.mark.thorough
def test_certify_proves_it_and_the_page_lists_it() -> None:
    proved = {row["mechanism"]: row["slack"] for row in certify.every() if "failed" not in row}
    assert all(-1e-10 <= proved[f"half:{d}:{e}"] <= 0 for d in (5, 10) for e in ("1/10", "2", "8"))
    assert f"| `half:5:2` | value | {Half.protected} | 2 |" in privacy_page.mechanisms()
    assert f"| `half` | {Half.observed} | {Half.limit} |" in privacy_page.families()


def test_a_device_offers_it_and_a_server_allows_and_decodes_it() -> None:
    assert "half" in mechanism_options._families()
    assert mechanism_options.mechanism_from("half", "2", Scale(1, 5, 1)) == Half(5, Fraction(2))
    spec = spec_from_settings(Settings(mechanisms=("rr:5:2", "half:5:2")))
    assert spec.mechanisms[1] == Half(5, Fraction(2))
    channels = Channels.from_mechanisms(spec.mechanisms)
    np.testing.assert_array_equal(channels.channel(1), spec.mechanisms[1].likelihood())
