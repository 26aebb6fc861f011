"""Mutants of what people and outside readers run: devices, the page, auditors."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

OF_DEVICES = (
    Mutant(
        name="a record of the journal is not synced before it is sent",
        file="producers/journal/append_log.py",
        old="                    self._disk.sync(self._handle)\n"
        "                    self._broken = False",
        new="                    self._broken = False",
        seen="after a power cut the device has forgotten what it spent, and draws again",
        first=("tests/producers/test_journal_disk.py", "tests/producers/test_crash_plans.py"),
    ),
    Mutant(
        name="the budget's window is a day longer than agreed",
        file="producers/person/account.py",
        old="(key := self._keys[self._place])[0] <= after",
        new="(key := self._keys[self._place])[0] < after",
        seen="a report that the budget admits again is refused for one more day",
        first=("tests/producers/test_reports.py", "tests/producers/test_person.py"),
    ),
    Mutant(
        name="what waited while the broker was away is not sent when it is back",
        file="producers/daemon/delivery.py",
        old="self._waiting = deque("
        "each for each in self._journal.pending() if each.topic == self._topic)",
        new="self._waiting.clear()",
        seen="reports that were paid for reach the server only after a restart, or never",
        first=("tests/producers/daemon/test_runner.py",),
    ),
    Mutant(
        name="a journal that is one event behind the topic goes on",
        file="producers/last_seen.py",
        old="        if seq > last or",
        new="        if seq > last + 1 or",
        seen="a backup that lacks the last report spends that budget a second time",
        first=("tests/producers/daemon/test_older_journal.py",),
    ),
    Mutant(
        name="a list made on the device holds what its user has rated",
        file="producers/ranking/ranker.py",
        old="        allowed[self.had] = False\n",
        new="",
        seen="films that were rated yesterday are recommended today",
        first=("tests/producers/ranking/test_ranker.py",),
    ),
    Mutant(
        name="a list with nothing to exclude is asked for at its own length",
        file="consumers/recommendations.py",
        old="asked = k if excluded is None else wire.LIST_LENGTH",
        new="asked = k if not excluded else wire.LIST_LENGTH",
        seen="the length of a query tells the server whether anything was rated",
        first=("tests/consumers/test_recommendations.py",),
    ),
    Mutant(
        name="a record of a stranger proves that a journal is an older copy",
        file="producers/last_seen.py",
        old="    return (TAG, own) in (clients.headers_of(message) or ())\n",
        new="    return True\n",
        seen="one forged record ends a device for good",
        first=("tests/kafka/test_restored_journals.py",),
    ),
    Mutant(
        name="the auditor counts a device once for each of its messages",
        file="consumers/audit/attacks/evidence.py",
        old="devices += len(np.unique(messages.device[chosen]))",
        new="devices += len(chosen)",
        seen="the attack expects profiles that are too small, and finds less than it could",
        first=("tests/consumers/audit/test_attacks.py",),
    ),
    Mutant(
        name="a publication that failed in part raises nothing",
        file="murmurec/device.py",
        old="        if publisher.failed:\n",
        new="        if publisher.failed and not publisher.accepted:\n",
        seen="a person believes that all ratings were sent while some wait in the journal",
        first=("tests/murmurec/test_device.py",),
    ),
    Mutant(
        name="the page sends a later report although an earlier one did not arrive",
        file="deploy/web/device.js",
        old="if (!outcome) { this.#sendLater(later); break; }",
        new="if (!outcome) { this.#sendLater(later); continue; }",
        seen="the server drops the earlier report, whose number it has passed by then",
        first=("tests/web/test_device.py",),
    ),
)
