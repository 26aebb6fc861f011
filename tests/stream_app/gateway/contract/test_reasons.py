"""Every reason code has a sentence, and the gateway's code uses no other."""

import re
from pathlib import Path

from stream_app.gateway.contract.rejection_reasons import (
    OF_HTTP,
    OF_REFUSALS,
    OF_THE_WIRE,
    HttpReason,
)
from stream_app.wire import Reason

GATEWAY = Path(__file__).parents[4] / "stream_app" / "gateway"
_REFUSED = re.compile(r'refused\(\s*\d+,\s*"([a-z_]+)"')


def test_every_reason_has_one_sentence():
    assert list(OF_THE_WIRE) == list(Reason)
    assert list(OF_HTTP) == list(HttpReason)
    sentences = [*OF_THE_WIRE.values(), *OF_HTTP.values()]
    assert len(set(sentences)) == len(sentences)
    assert all(10 < len(sentence) <= 120 and "\n" not in sentence for sentence in sentences)


def test_no_code_means_two_things():
    assert {str(reason) for reason in Reason}.isdisjoint(HttpReason)


def test_the_gateway_refuses_with_no_other_reason():
    used = {
        reason
        for path in GATEWAY.rglob("*.py")
        for reason in _REFUSED.findall(path.read_text(encoding="utf-8"))
    }
    assert "not_found" in used
    assert used <= set(OF_REFUSALS)
