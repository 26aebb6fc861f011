"""Reasons for rejecting a record."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Reason(StrEnum):
    """Why a record is rejected; only the reason, the place and the size are published."""

    ACCEPTED = "accepted"
    EMPTY = "empty"
    TOO_LARGE = "too_large"
    MALFORMED = "malformed"
    UNKNOWN_VERSION = "unknown_version"
    BAD_DEVICE = "bad_device"
    KEY_MISMATCH = "key_mismatch"
    WRONG_PARTITION = "wrong_partition"
    MECHANISM_NOT_ALLOWED = "mechanism_not_allowed"
    BAD_ITEM = "bad_item"
    LENGTH_MISMATCH = "length_mismatch"
    REPORT_OUTSIDE_ALPHABET = "report_outside_alphabet"
    TEST_EVENT = "test_event"
    SEQ_JUMP = "seq_jump"
    BAD_MASK = "bad_mask"
    FORGOTTEN = "forgotten"
    UNREADABLE = "unreadable"
    BAD_SIGNATURE = "bad_signature"
    STALE = "stale"
    AHEAD = "ahead"


REASONS: tuple[Reason, ...] = tuple(Reason)
REASON_CODE: Mapping[Reason, int] = {reason: code for code, reason in enumerate(REASONS)}


class WireError(Exception):
    """A record that violates the contract of its topic; only its `reason` may be published."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason
