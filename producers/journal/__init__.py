"""The journal: debits, released reports and sent messages, in one append-only file.

Everything that a device releases passes through the journal. For a request it checks reported keys
and budget, issues the ticket, lets the mechanism draw, encodes, records and syncs, and only then
returns the bytes:

    with Journal.open("device.journal") as journal:
        journal.enrol([pseudonym], PersonBudget(), epoch)  # (20, 1e-6) for the person, once
        for message in journal.pending():                # first: messages of an earlier run
            send(message)
        request = Request(
            device=pseudonym,                            # 16 bytes, from journal.key
            topic=topics.ratings,                        # full name; seqs rise per (device, topic)
            scope="rating",                              # one report a key, unless republish=True
            reported_keys=keys,                          # of the items, rising
            mechanism=rr,                                # id, adjacency, epsilon[, delta], certify
            raw_inputs=raw_levels,                       # rr.release(raw_levels, ticket)
            count=len(keys),                             # reports: on the ticket and in the debit
            epoch=epoch,                                 # journal.epoch(today)
            encode=lambda seq, part, released, test: wire.encode(
                wire.Event(pseudonym, seq, rr.id, epoch, keys[part], released[part], test=test)),
        )
        for message in journal.release(request):         # journal.commit([...]): one sync for all
            send(message)                                # message.topic, .key, .value; then, when
            ...                                          # the broker has it:
            journal.acknowledge(message.number)

`send` is the caller's (`producers.publishing.Publisher`, which also acknowledges). What the classes
of error mean: `BudgetExhausted`, do not send; `OutboxFull`, wait for the broker and try again;
`UserError`, the device is not enrolled, the keys were reported before, or the file cannot be used;
ValueError, the request
cannot be released. After any of them file, budget and reported keys are unchanged.

    frames            bytes of the file, torn end or damage    account_book  all accounts
    records           content of the frames, as columns        outbox        unacknowledged messages
    append_log, disk  append, sync, replace; system calls      release       budget, ticket, record
    budget            nano-epsilon of a release, limits        replay        frames, applied

What an account is, and what a person's budget holds: `producers.person`.
"""

from producers.journal.budget import Limits, debit
from producers.journal.journal import Journal
from producers.journal.journal_progress import DatasetProgress
from producers.journal.journal_replay import JournalView, read_journal, read_key
from producers.journal.release import enrolled
from producers.journal.request import Message, Request
from producers.person.account import Spent
from producers.person.enrolment import ATTO, NANO, Enrolment, PersonBudget
from stream_app.errors import BudgetExhausted, FinishedBefore, OutboxFull, Unwritable
