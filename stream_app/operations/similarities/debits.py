"""The log of releases: what each public table costs a device, written before its noise is drawn.

    debit   JSON {id, bound, variance, size, epsilon, delta, budget, cut, scope, v}

A debit counts iff it and all that count before it fit its own `budget`: the composed curve of the
noisy sums (`privacy/gaussian/certificate.py`) is at most `BUDGET_DELTA` there. So every reader of
the log decides alike, two operators at once cannot spend one budget twice, and a setting that is
lowered later takes nothing back. A record that is no debit may hide one: it is refused, never
skipped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

import msgspec

from stream_app.errors import UserError
from stream_app.kafka.clients import Connection
from stream_app.kafka.topic_follower import records
from stream_app.privacy.gaussian.certificate import CampaignCertificate, NoisySum
from stream_app.wire.campaigns.plan import decode_rational, encode_rational
from stream_app.wire.limits import MAX_SEQ, VERSION

BUDGET_DELTA = Fraction(1, 10**6)
"""The delta at which the budget of releases is an epsilon."""


class Debit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one release costs: a noisy sum, stated as (epsilon, delta), under a budget.

    id: random, so that its writer finds it. cut: the state whose lists are summed. scope: digest
    of the public items and domains that they are summed over (`lists.py`); "" before there was one.
    """

    id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
    bound: int
    variance: Fraction
    size: int
    epsilon: Fraction
    delta: Fraction
    budget: Fraction
    cut: Annotated[int, msgspec.Meta(ge=0, le=MAX_SEQ)]
    scope: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{32})?$")] = ""
    v: int = VERSION

    @property
    def noisy_sum(self) -> NoisySum:
        """What the release adds to the composed cost; ValueError for values out of range."""
        return NoisySum(self.bound, self.variance, self.size)


_encoder = msgspec.json.Encoder(enc_hook=encode_rational)
_decoder = msgspec.json.Decoder(Debit, dec_hook=decode_rational)


def encode_debit(debit: Debit) -> bytes:
    """Return a debit as JSON."""
    return _encoder.encode(debit)


def decode_debit(value: bytes | None) -> Debit:
    """Return the debit of a record; raises ValueError and nothing else."""
    try:
        debit = _decoder.decode(value or b"")
        debit.noisy_sum  # noqa: B018 (checks the ranges)
    except (UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from None
    if debit.v != VERSION:
        raise ValueError(f"version {debit.v}")
    return debit


@dataclass(frozen=True)
class Account:
    """The debits that count, in the order of the log."""

    counted: tuple[Debit, ...] = ()

    @classmethod
    def of_log(cls, debits: Iterable[Debit]) -> Account:
        """Return the account of all debits of the log."""
        found = cls()
        for debit in debits:
            if found.holds(debit):
                found = cls((*found.counted, debit))
        return found

    def holds(self, debit: Debit) -> bool:
        """Return whether a debit fits what is left of its budget."""
        together = self.with_debit(debit).certificate
        try:
            return together.delta(debit.budget) <= BUDGET_DELTA
        except ValueError:  # beyond what any budget holds
            return False

    def with_debit(self, debit: Debit) -> Account:
        """Return the account with one debit more, whether it fits or not."""
        return Account((*self.counted, debit))

    @property
    def certificate(self) -> CampaignCertificate:
        """What all counted releases together cost a device."""
        return CampaignCertificate(tuple(debit.noisy_sum for debit in self.counted))

    def number(self, id: str) -> int:
        """Return the number of a counted debit, from 1; 0 for one that does not count."""
        return next((n for n, debit in enumerate(self.counted, 1) if debit.id == id), 0)

    def spent(self, delta: Fraction = BUDGET_DELTA) -> Fraction:
        """Return the proved epsilon of all counted releases at `delta`."""
        return self.certificate.epsilon(delta)


def read_account(connection: Connection, topic: str) -> Account:
    """Return the account of the log of releases; UserError for a log with another record in it."""
    debits = []
    for message in records(connection, topic):
        try:
            debits.append(decode_debit(message.value()))
        except ValueError as error:
            raise UserError(
                f"topic {topic} holds a record at offset {message.offset()} that is no debit of "
                f"this version ({str(error)[:120]}): a table may have been released under it; "
                "install the version that wrote it"
            ) from None
    return Account.of_log(debits)
