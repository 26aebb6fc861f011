"""Seals: only a holder of the secret makes a tag, and a tag is of one kind and one deployment."""

from __future__ import annotations

import msgspec
import pytest

from stream_app.wire import (
    Aborted,
    CampaignPlan,
    Contract,
    Cut,
    DigestReport,
    Reason,
    Released,
    decode_entry,
    encode_message,
)
from stream_app.wire.authenticity.seal import ANY, NO_TAG, OPEN, ForeignSeal, Seal
from stream_app.wire.state_records import (
    Claim,
    ClaimKey,
    decode_claim,
    decode_manifest,
    encode_claim,
    encode_manifest,
)
from tests.stream_app.wire.test_cut_log import ENTRIES, RELEASED
from tests.stream_app.wire.test_state_records import MANIFEST

SECRET = "0123456789abcdef" * 2
SEAL, OTHER = Seal(SECRET, "murmurec"), Seal(SECRET[::-1], "murmurec")
REPORT = DigestReport(7, "a" * 32, "b" * 32, "d" * 32, "c" * 32)


def test_a_tag_has_these_bytes() -> None:
    assert SEAL.tag(b"manifest", b"body").hex() == "e0456d71df96d3181cce21eeed0f5055"
    assert OPEN.tag(b"manifest", b"body") == NO_TAG


def test_a_tag_depends_on_secret_deployment_kind_and_record() -> None:
    tags = {
        seal.tag(kind, record)
        for seal in (SEAL, OTHER, Seal(SECRET, "other"))
        for kind in (b"manifest", b"claim")
        for record in (b"", b"a", b"b")
    }
    assert len(tags) == 18


def test_a_short_secret_is_refused() -> None:
    with pytest.raises(ValueError, match="31 characters: use at least 32"):
        Seal("a" * 31)
    assert Seal("a" * 4096).keyed


def test_a_manifest_is_read_under_its_seal_only() -> None:
    for seal in (OPEN, SEAL):
        value = encode_manifest(MANIFEST, seal)
        assert decode_manifest(value, seal) == decode_manifest(value, ANY) == MANIFEST
        for another in {OPEN, SEAL, OTHER} - {seal}:
            with pytest.raises(ForeignSeal) as raised:
                decode_manifest(value, another)
            assert raised.value.reason is Reason.MALFORMED


def test_a_claim_is_read_under_its_seal_and_its_key_only() -> None:
    key, value = ClaimKey(b"a" * 16), encode_claim(ClaimKey(b"a" * 16), Claim("w"), SEAL)
    assert decode_claim(key, value, SEAL) == Claim("w")
    for other_key, seal in ((ClaimKey(b"b" * 16), SEAL), (key, OTHER), (key, OPEN)):
        with pytest.raises(ForeignSeal):
            decode_claim(other_key, value, seal)


def test_a_digest_report_is_genuine_under_its_seal_only() -> None:
    sealed = decode_entry(encode_message(REPORT.sealed(SEAL)))
    assert isinstance(sealed, DigestReport)
    assert sealed.is_genuine(SEAL)
    assert sealed.is_genuine(OPEN), "a reader without a secret takes every report"
    assert not sealed.is_genuine(OTHER)
    assert not REPORT.is_genuine(SEAL)
    forged = msgspec.structs.replace(sealed, cut=8)
    assert not forged.is_genuine(SEAL)
    assert sealed.sealed(SEAL) == sealed
    assert sealed.sealed(OPEN) == REPORT


def test_an_entry_of_a_campaign_is_genuine_under_its_seal_only() -> None:
    for entry in (ENTRIES["campaign"], ENTRIES["released"], ENTRIES["aborted"]):
        assert isinstance(entry, CampaignPlan | Released | Aborted)
        sealed = decode_entry(encode_message(entry.sealed(SEAL)))
        assert isinstance(sealed, type(entry))
        assert sealed.is_genuine(SEAL)
        assert sealed.is_genuine(OPEN), "a reader without a secret takes every entry"
        assert not sealed.is_genuine(OTHER)
        assert not entry.is_genuine(SEAL)
        assert sealed.sealed(OPEN) == entry
        assert b"seal" not in encode_message(entry.sealed(OPEN))
    forged = msgspec.structs.replace(RELEASED.sealed(SEAL), contributions=10)
    assert not forged.is_genuine(SEAL)


def test_entries_without_a_secret_have_the_bytes_of_before() -> None:
    assert encode_message(REPORT.sealed(OPEN)) == encode_message(REPORT)
    assert b"seal" not in encode_message(REPORT)
    for entry in (Contract(2), Cut(1, (1,), 0)):
        assert decode_entry(encode_message(entry)) == entry
