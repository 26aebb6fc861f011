"""The keys of a party: one to open boxes, one secret from which its noise is derived.

    ROLE.key   JSON {v, role, public, secret, noise}, readable by its owner alone (0600)
    ROLE.pub   the public half in hex, for the plan and for the devices' configuration

Both secrets come from the operating system. Who holds the first reads the party's boxes; who holds
the second can subtract its noise. Lost, a party cannot answer for campaigns that name its key.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b
from pathlib import Path
from typing import Annotated

import msgspec
from nacl import bindings

from stream_app.errors import UserError
from stream_app.kafka import durable_file
from stream_app.wire.campaigns.plan import Campaign, PublicKey

_PERSON = b"murmurec.noise.1"
_Hex = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
_KEY_BYTES = 32
_MOST_FILE = 4096


class Role(StrEnum):
    """Which party of a campaign: one of two, or the trusted one alone."""

    A = "a"
    B = "b"
    CENTRAL = "central"


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    role: Role
    public: PublicKey
    secret: _Hex
    noise: _Hex
    v: int = 1


@dataclass(frozen=True)
class PartyKeys:
    """The keys of one party, 32 bytes each."""

    role: Role
    public: bytes
    secret: bytes = field(repr=False)
    noise: bytes = field(repr=False)

    @classmethod
    def random(cls, role: Role) -> PartyKeys:
        """Return new keys from the operating system."""
        secret = os.urandom(_KEY_BYTES)
        return cls(role, bindings.crypto_scalarmult_base(secret), secret, os.urandom(_KEY_BYTES))

    def party(self, campaign: Campaign) -> int | None:
        """Return the place of this party in a campaign; None where the plan does not name it."""
        place = int(self.role is Role.B)
        alone = self.role is Role.CENTRAL
        if (campaign.parties == 1) is not alone or len(campaign.keys) != campaign.parties:
            return None
        return place if campaign.keys[place] == self.public.hex() else None

    def noise_key(self, plan: bytes, stage: int, records: bytes) -> bytes:
        """Return the 32-byte key of the noise of one stage, summed over one set of records.

        BLAKE2b keyed with the secret is a pseudorandom function (RFC 7693): another plan, stage or
        set has other noise, and the same has the same, whatever crashed in between.
        """
        body = plan + stage.to_bytes(4, "little") + records
        return blake2b(body, key=self.noise, digest_size=_KEY_BYTES, person=_PERSON).digest()


def make(folder: Path, role: Role) -> PartyKeys:
    """Make the keys of a party in a folder; raises `UserError` where it has keys already."""
    keys = PartyKeys.random(role)
    file = _File(role, keys.public.hex(), keys.secret.hex(), keys.noise.hex())
    private, public = folder / f"{role}.key", folder / f"{role}.pub"
    for path in (private, public):
        if os.path.lexists(path):
            raise _kept_already(path, role)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: is no folder for keys ({error.strerror})") from None
    try:
        durable_file.create(private, msgspec.json.encode(file) + b"\n")
        durable_file.create(public, keys.public.hex().encode() + b"\n", 0o644)
        durable_file.sync_folder(folder)
    except FileExistsError as error:
        raise _kept_already(error.filename, role) from None
    except OSError as error:
        raise UserError(f"{private}: cannot be written ({error.strerror})") from None
    return keys


def load(path: Path) -> PartyKeys:
    """Return the keys in a file; raises `UserError` for one that is absent, damaged or readable by
    others than its owner."""
    try:
        with path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise UserError(f"{path}: others can read the party's secrets; chmod 600 it")
            value = file.read(_MOST_FILE)
    except FileNotFoundError:
        raise UserError(
            f"{path}: there are no keys; restore them from a copy, or make new ones (murmurec "
            "aggregate --make-keys) and begin a campaign that names these: what was sealed to the "
            "old ones is lost"
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    try:
        found = msgspec.json.decode(value, type=_File)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise UserError(f"{path}: is not a file of keys; restore it from a copy") from None
    secret = bytes.fromhex(found.secret)
    public = bindings.crypto_scalarmult_base(secret)
    if found.v != 1 or public.hex() != found.public:
        raise UserError(f"{path}: its halves do not belong together; restore it from a copy")
    return PartyKeys(found.role, public, secret, bytes.fromhex(found.noise))


def read_public(path: Path) -> str:
    """Return the public half in a file, in hex; raises `UserError` for anything else."""
    try:
        return msgspec.convert(path.read_text("ascii").strip(), PublicKey)
    except OSError as error:
        raise UserError(
            f"{path}: cannot be read ({error.strerror}); murmurec aggregate prints the public half"
        ) from None
    except (UnicodeDecodeError, msgspec.ValidationError):
        raise UserError(f"{path}: is not the public half of a party's keys (64 hex)") from None


def _kept_already(path: Path | str, role: Role) -> UserError:
    return UserError(
        f"{path}: party {role} has keys already, and campaigns may need them; choose another folder"
    )
