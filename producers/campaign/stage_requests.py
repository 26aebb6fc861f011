"""What the journal is asked for in a stage: the debit of the campaign, and the sealed boxes.

    key of the campaign   BLAKE2b-64 of plan and epoch: reported with the first stage, and debited
    key of a stage        BLAKE2b-64 of plan and stage: reported once, ever

Both are keyed with the secret of the journal. The owner writes the plans, and 2^32 of them hold two
of one plain hash: the device would take the second one as paid.

The whole campaign is debited with the first contribution of an epoch (a day); further stages of
that epoch are parts of what was paid. In a later epoch it is debited again: the person's budget
holds in any window of days, and what a later stage releases must not leave it with an older debit.

A campaign as the journal sees it: what it costs the person, and what is released in a stage.

The id is that of all its sums, `gaussian:BOUND:VARIANCE:SIZE[+...]`, so the account's exact
accounting composes the campaign with whatever else the person releases. A vector leaves the device
under the seals of the parties alone; the noise of the claim is theirs to add. With one party it is
that party which is trusted with it, with two it is enough that one of them is honest. A record
holds the debit and the sealed bytes, so that after any crash the same bytes are sent.

A budget without a plan is planned for the mechanism of its first release, which is then composed
exactly, and no other may follow. Campaigns differ in their stages, and reports come beside them: so
a budget that holds the campaign under a Renyi filter is planned for several mechanisms
(`adaptive`), which costs about a tenth of the campaigns that it holds (170 instead of 186 of
epsilon 1 in a budget of 20 at delta 1e-6). One that holds it exactly and not so is planned for this
campaign alone. It depends on the plan and the budget, and on no rating.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from producers.campaign import terms
from producers.campaign.terms import Pinned
from producers.identities import Identities
from producers.journal import Journal, JournalView, Message, Request
from producers.person.enrolment import ADAPTIVE
from producers.person.reports import Costing, room
from producers.ranking import RatedItem
from producers.ranking.in_scope import in_scope
from stream_app.campaigns import together
from stream_app.campaigns.planning import certificate, check_budget
from stream_app.campaigns.rounds import Rounds
from stream_app.campaigns.sealing import seal
from stream_app.errors import UserError
from stream_app.privacy.exact.certificates import Certificate
from stream_app.privacy.gaussian import naming
from stream_app.privacy.gaussian.campaign_loss import CampaignCost
from stream_app.privacy.randomness import RandomSource
from stream_app.privacy.ticket import admitted
from stream_app.wire.campaigns.contribution import SIGNED_AS, Contribution, encode_contribution
from stream_app.wire.campaigns.plan import Campaign

SCOPE = "campaign"
_PERSON = b"murmurec.join.1"
_Keys = NDArray[np.uint64]


@dataclass(frozen=True, eq=False)
class StageRequests:
    """The requests of one stage, the same for every device but for the vector.

    `keys` are the reported keys (1,) of a device that has paid in this epoch, `keys_and_debit` (2,)
    those of one that pays with this request, rising; `paid_by` is the key of the campaign.
    """

    mechanism: Sealing
    topic: str
    epoch: int
    keys: _Keys
    keys_and_debit: _Keys
    paid_by: _Keys

    @classmethod
    def of_stage(
        cls, campaign: Campaign, stage: int, *, secret: bytes, topic: str, epoch: int
    ) -> StageRequests:
        """Return the requests of a stage; `secret` is `Journal.key`. UserError for a campaign that
        no account can name."""
        plan = campaign.digest
        once, paid = _key(secret, plan, b"stage", stage), _key(secret, plan, b"epoch", epoch)
        return cls(
            Sealing.of_stage(campaign, stage),
            topic,
            epoch,
            np.array([once], np.uint64),
            np.array(sorted({once, paid}), np.uint64),
            np.array([paid], np.uint64),
        )

    def check(self, journal: Journal) -> None:
        """Raise UserError for a journal that is a test."""
        if journal.unsafe:
            raise UserError(
                f"device journal {journal.path}: is a test, and a contribution cannot be marked as "
                "a test: it would count in the sum; give another journal (--journal)"
            )

    def contributed(self, journal: Journal, device: bytes) -> bool:
        """Return whether a device has contributed to the stage."""
        return bool(journal.reports(device, self.keys, SCOPE)[0])

    def paid(self, journal: Journal, device: bytes) -> bool:
        """Return whether a device has paid for the campaign in this epoch."""
        return bool(journal.reports(device, self.paid_by, SCOPE)[0])

    def affordable(self, journal: Journal, device: bytes) -> bool:
        """Return whether the budget of a device holds what the stage costs it in this epoch."""
        if self.paid(journal, device):
            return True
        left = journal.room(device, self.mechanism, self.epoch)
        return left is None or left > 0

    def request(
        self,
        journal: Journal,
        device: bytes,
        raw_vector: NDArray[np.int32],
        identities: Identities | None = None,
    ) -> Request:
        """Return the request of a device that has not contributed yet, signed where `identities`
        sign."""

        def encoded(seq: int, part: slice, released: Any, test: bool) -> bytes:  # noqa: ARG001
            value = encode_contribution(released)
            return value if identities is None else identities.seal(SIGNED_AS, device, value)

        paid = self.paid(journal, device)
        return Request(
            device=device,
            topic=self.topic,
            reported_keys=self.keys if paid else self.keys_and_debit,
            mechanism=self.mechanism,
            raw_inputs=(device, raw_vector),
            count=1,
            encode=encoded,
            epoch=self.epoch,
            scope=SCOPE,
            paid_by=int(self.paid_by[0]) if paid else None,
        )


def contributed(journal: Journal, device: bytes, plan: bytes, stage: int) -> bool:
    """Return whether a device has contributed to a stage of the plan with this digest."""
    keys = np.array([_key(journal.key, plan, b"stage", stage)], np.uint64)
    return bool(journal.reports(device, keys, SCOPE)[0])


@dataclass(frozen=True)
class JoinedCampaigns:
    """What a journal remembers of a device's campaigns when the sealed bytes are gone: the keys of
    stages and of payments, and the epochs in which it paid for some."""

    secret: bytes = field(repr=False)
    keys: frozenset[int]
    epochs: frozenset[int]

    @classmethod
    def from_view(cls, view: JournalView, device: bytes) -> JoinedCampaigns:
        """Return what a journal has of a device."""
        account = view.book.accounts.get(device)
        spends = () if account is None else account.spends
        epochs = frozenset(epoch for epoch, _, scope, _ in spends if scope == SCOPE)
        return cls(view.key, frozenset(view.book.reported_keys(device, SCOPE).tolist()), epochs)

    def paid(self, plan: bytes, stage: int) -> int:
        """Return on how many days the device paid, 0 if it did not contribute to the stage."""
        if _key(self.secret, plan, b"stage", stage) not in self.keys:
            return 0
        return sum(_key(self.secret, plan, b"epoch", each) in self.keys for each in self.epochs)

    def others(self, plans: Iterable[tuple[bytes, int]]) -> int:
        """Return how many keys belong to none of these plans, (digest, number of stages)."""
        known = set[int]()
        for plan, stages in plans:
            known |= {_key(self.secret, plan, b"stage", each) for each in range(stages)}
            known |= {_key(self.secret, plan, b"epoch", each) for each in self.epochs}
        return len(self.keys - known)


def _key(secret: bytes, plan: bytes, kind: bytes, number: int) -> int:
    body = plan + kind + number.to_bytes(8, "little")
    made = blake2b(body, digest_size=8, key=secret, person=_PERSON)
    return int.from_bytes(made.digest(), "little")


_LONGEST_ID = 200  # characters: it may become the plan of an account


Inputs = tuple[bytes, NDArray[np.int32]]  # a device, 16 bytes, and its vector (size,)


@dataclass(frozen=True)
class Sealing(CampaignCost):
    """The release of one stage of a campaign, the same value for every device: it is certified
    once for all devices of a journal. The digest `plan` stands for the campaign where two are
    compared."""

    plan: bytes
    stage: int
    campaign: Campaign = field(compare=False, repr=False)

    @classmethod
    def of_stage(cls, campaign: Campaign, stage: int) -> Sealing:
        """Return the release; UserError for a campaign of more stages than an id can name."""
        id = naming.name(certificate(campaign.stages))
        if len(id) > _LONGEST_ID:
            raise UserError(
                f"campaign {campaign.number}: its {len(campaign.stages)} stages are more than an "
                "account can name; nothing was contributed"
            )
        return cls(id, campaign.digest, stage, campaign)

    def certify(self) -> tuple[Certificate, ...]:
        """Prove again that all stages are within what the plan states; ValueError if not."""
        check_budget(self.campaign)
        named = naming.name(certificate(self.campaign.stages)), self.campaign.digest
        if named != (self.id, self.plan):
            raise ValueError(f"campaign {self.campaign.number}: is not {self.id}")
        return ()

    def release(self, inputs: Inputs, source: RandomSource) -> Contribution:
        """Return the vector of a device sealed to the parties; `source` is a ticket for one
        report."""
        words = admitted(source, self, 1)
        device, vector = inputs
        return seal(self.campaign, self.stage, device, vector, words)


def decide_plans(journal: Journal, devices: Sequence[bytes], mechanism: Costing) -> None:
    """Plan the budgets of those accounts that have no plan and have released nothing, durably."""
    found = [each for each in devices if _is_undecided(journal, each, mechanism)]
    if found:
        journal.set_plan(found, ADAPTIVE)


def _is_undecided(journal: Journal, device: bytes, mechanism: Costing) -> bool:
    account = journal.enrolment(device)
    if account is None or account.withdrawn or account.budget.plan or not account.budget.limited:
        return False
    if journal.spent(device):
        return False
    return bool(room(replace(account.budget, plan=ADAPTIVE), {}, mechanism))


@dataclass(frozen=True)
class Sending:
    """To which topic, in which epoch (from `Journal.epoch`), and who signs, where devices do."""

    topic: str
    epoch: int
    identities: Identities | None = None


def contribute(
    journal: Journal,
    device: bytes,
    rated: Sequence[RatedItem],
    rounds: Rounds,
    pinned: Pinned,
    sending: Sending,
) -> Message:
    """Pay for, seal and record the contribution of a device to the open stage.

    rated: what the device has kept, oldest first; without ratings it contributes zeros.

    Raises UserError where no stage is open, the plan is not what the device has pinned, the device
    has contributed to the stage, or the journal is a test; `BudgetExhausted`, and as
    `Journal.commit` does.
    """
    campaign, stage = terms.open_stage(rounds)
    terms.check(campaign, pinned)
    terms.check_notice(rounds, pinned)
    requests = StageRequests.of_stage(
        campaign, stage.index, secret=journal.key, topic=sending.topic, epoch=sending.epoch
    )
    requests.check(journal)
    if requests.contributed(journal, device):
        raise UserError(
            f"this device has contributed to stage {stage.index} of campaign {campaign.number}: "
            "the first contribution counts, and there is no second"
        )
    raw_vector = together.contribution(stage.stage, in_scope(campaign.scope, rated))
    decide_plans(journal, [device], requests.mechanism)
    return journal.release(requests.request(journal, device, raw_vector, sending.identities))[0]
