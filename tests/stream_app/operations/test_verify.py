"""What `state verify` compares with the log where the design changes between two digest reports."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stream_app.operations.verify import DigestReports, Findings
from stream_app.privacy import registry
from stream_app.state.design import merged
from stream_app.state.replica import Replica
from stream_app.wire import DigestReport
from tests.fixtures.replicas import SMALL

RR = replace(SMALL, mechanisms=(registry.parse("rr:5:2"),))


@pytest.mark.parametrize("differs", [False, True])
def test_reports_on_both_sides_of_a_change_that_adds_arrays_are_compared(differs: bool) -> None:
    replica = Replica(RR)
    held = list[DigestReport]()

    def report(model: str) -> None:
        ledger, spec, origin = replica.ledger_digest(), replica.spec, replica.origin
        held.append(DigestReport(replica.cut, model, ledger, spec.digest, origin.digest))

    def play(compared: DigestReports | None) -> None:
        for number in (1, 2):
            if number == 2:
                replica.redesign(merged(replica.spec, replace(RR, clip=2.0)))
            replica.end_round(number, [0] * RR.partitions)
            if compared is None:
                report(replica.model_digest() if number == 1 or not differs else "0" * 32)
            else:
                compared.compare(replica)

    play(None)
    findings = Findings()
    reports = DigestReports(held, findings)
    replica = Replica(RR)
    play(reports)
    assert (reports.compared, reports.others) == (2, 0)
    assert [difference.partition(":")[0] for difference in findings.differences] == (
        ["digest report of cut 2"] if differs else []
    )
