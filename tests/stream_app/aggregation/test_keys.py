"""The files of a party: its keys, for its owner alone, and what it has released, once a stage."""

from __future__ import annotations

import errno
import os

import pytest
from nacl import bindings

from stream_app.aggregation import keys
from stream_app.aggregation.keys import Role
from stream_app.aggregation.releases import ReleasesFile
from stream_app.errors import UserError

PLAN, OTHER = bytes(32), bytes(range(32))
FIRST, SECOND = b"1" * 32, b"2" * 32


@pytest.mark.parametrize("role", Role)
def test_keys_are_for_their_owner_alone_and_survive(tmp_path, role):
    folder = tmp_path / "new" / "folder"
    made = keys.make(folder, role)
    private = folder / f"{role}.key"
    assert private.stat().st_mode & 0o777 == 0o600
    assert folder.stat().st_mode & 0o777 == 0o700
    assert keys.load(private) == made
    assert keys.read_public(folder / f"{role}.pub") == made.public.hex()
    assert made.public == bindings.crypto_scalarmult_base(made.secret)
    for secret in (made.secret, made.noise):
        assert secret.hex() not in (folder / f"{role}.pub").read_text()
        assert secret.hex() not in repr(made)
        assert repr(secret) not in repr(made)


def test_no_two_keys_are_alike(tmp_path):
    a, b = keys.make(tmp_path, Role.A), keys.make(tmp_path, Role.B)
    assert len({a.public, a.secret, a.noise, b.public, b.secret, b.noise}) == 6


def test_keys_are_never_replaced(tmp_path):
    made = keys.make(tmp_path, Role.A)
    with pytest.raises(UserError, match="has keys already"):
        keys.make(tmp_path, Role.A)
    assert keys.load(tmp_path / "a.key") == made


def test_a_file_where_the_folder_of_keys_should_be_is_named(tmp_path):
    (tmp_path / "file").write_text("kept")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match="is no folder for keys"):
            keys.make(folder, Role.A)
    assert (tmp_path / "file").read_text() == "kept"


def test_a_public_half_that_is_not_there_is_not_called_damaged(tmp_path):
    with pytest.raises(UserError, match=r"cannot be read \(No such file.*murmurec aggregate"):
        keys.read_public(tmp_path / "a.pub")
    (tmp_path / "b.pub").write_text("xyz")
    with pytest.raises(UserError, match="is not the public half"):
        keys.read_public(tmp_path / "b.pub")


def test_lost_keys_are_one_sentence(tmp_path):
    with pytest.raises(UserError, match=r"there are no keys; restore them .*aggregate --make-keys"):
        keys.load(tmp_path / "a.key")


def test_keys_that_others_can_read_are_refused(tmp_path):
    keys.make(tmp_path, Role.A)
    for mode in (0o640, 0o604, 0o620):
        (tmp_path / "a.key").chmod(mode)
        with pytest.raises(UserError, match="chmod 600"):
            keys.load(tmp_path / "a.key")


def test_damaged_keys_are_refused(tmp_path):
    made = keys.make(tmp_path, Role.A)
    path = tmp_path / "a.key"
    good = path.read_text()
    other = made.public.hex()[:-1] + ("0" if made.public.hex()[-1] != "0" else "1")
    for bad in (good[:-9], "", "[]", good.replace('"a"', '"c"'), good.replace('"v":1', '"v":2')):
        path.write_text(bad)
        with pytest.raises(UserError, match="restore it from a copy"):
            keys.load(path)
    path.write_text(good.replace(made.public.hex(), other))
    with pytest.raises(UserError, match="do not belong together"):
        keys.load(path)


def test_a_public_half_that_is_none_is_refused(tmp_path):
    path = tmp_path / "a.pub"
    for bad in ("", "xyz", "0" * 63, "A" * 64, "é"):
        path.write_text(bad)
        with pytest.raises(UserError, match="public half"):
            keys.read_public(path)
    with pytest.raises(UserError, match="public half"):
        keys.read_public(tmp_path / "absent")


def reopened(path):
    releases = ReleasesFile(path)
    releases.close()
    return ReleasesFile(path)


def test_a_stage_is_released_as_one_thing(tmp_path):
    path = tmp_path / "a.released"
    releases = ReleasesFile(path)
    for _ in range(2):
        assert releases.keep(PLAN, 0, FIRST)
        assert not releases.keep(PLAN, 0, SECOND)
        assert releases.keep(PLAN, 1, SECOND)
        assert releases.keep(OTHER, 0, SECOND)
        releases.close()
        releases = ReleasesFile(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(path.read_bytes().splitlines()) == 3


def test_a_public_half_that_is_left_over_keeps_keys_from_being_made(tmp_path):
    (tmp_path / "a.pub").write_text("left over")
    with pytest.raises(UserError, match=r"a\.pub: party a has keys already"):
        keys.make(tmp_path, Role.A)
    assert [each.name for each in tmp_path.iterdir()] == ["a.pub"]


@pytest.mark.parametrize("left", [1, 40, 66, 70, 130])
def test_a_line_that_a_crash_cut_off_was_never_released(tmp_path, left):
    path = tmp_path / "a.released"
    releases = ReleasesFile(path)
    releases.keep(PLAN, 0, FIRST)
    whole = path.read_bytes()
    releases.close()
    path.write_bytes(whole + whole.replace(b" 0 ", b" 1 ")[:left])
    releases = ReleasesFile(path)
    assert releases.keep(PLAN, 1, SECOND)
    releases.close()
    releases = ReleasesFile(path)
    assert not releases.keep(PLAN, 1, FIRST)
    assert not releases.keep(PLAN, 0, SECOND)
    assert len(path.read_bytes().splitlines()) == 2


def two_releases(path):
    """Return the bytes of a file of two releases."""
    releases = ReleasesFile(path)
    releases.keep(PLAN, 0, FIRST)
    releases.keep(PLAN, 1, FIRST)
    releases.close()
    return path.read_bytes()


DAMAGE = {
    "a changed byte": lambda value: b"g" + value[1:],
    "a changed byte of the last line": lambda value: value[:-2] + b"g\n",
    "a line that lost its end": lambda value: value[:50] + value[value.index(b"\n") :],
    "other ends of lines": lambda value: value.replace(b"\n", b"\r\n"),
    "no ends of lines": lambda value: value.replace(b"\n", b""),
    "zeros": lambda value: bytes(len(value) - 1) + b"\n",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_refused_and_not_changed(tmp_path, damage):
    path = tmp_path / "a.released"
    damaged = DAMAGE[damage](two_releases(path))
    path.write_bytes(damaged)
    for _ in range(2):
        with pytest.raises(UserError, match=r"is damaged, .*restore it from a copy"):
            ReleasesFile(path)
    assert path.read_bytes() == damaged


def test_a_last_line_that_is_whole_but_for_its_end_counts(tmp_path):
    path = tmp_path / "a.released"
    whole = two_releases(path)
    path.write_bytes(whole[:-1])
    releases = reopened(path)
    assert not releases.keep(PLAN, 1, SECOND)
    assert path.read_bytes() == whole


def test_one_process_at_a_time_is_a_party(tmp_path):
    first = ReleasesFile(tmp_path / "a.released")
    with pytest.raises(UserError, match="another process is this party"):
        ReleasesFile(tmp_path / "a.released")
    first.close()
    ReleasesFile(tmp_path / "a.released").close()


def test_a_release_counts_once_it_is_synced(tmp_path, monkeypatch):
    path, synced = tmp_path / "a.released", []
    releases = ReleasesFile(path)
    with monkeypatch.context() as watching:
        watching.setattr(os, "fdatasync", lambda _: synced.append(path.stat().st_size))
        assert releases.keep(PLAN, 0, FIRST)
    assert synced == [path.stat().st_size]

    def failing(_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as broken:
        broken.setattr(os, "fdatasync", failing)
        with pytest.raises(UserError, match="cannot be written"):
            releases.keep(PLAN, 1, FIRST)
    assert releases.keep(PLAN, 1, SECOND)
    assert len(path.read_bytes().splitlines()) == 2


def test_a_full_disk_releases_nothing(tmp_path):
    releases = ReleasesFile(tmp_path / "a.released")
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, releases._handle)
    os.close(full)
    for _ in range(2):
        with pytest.raises(UserError, match="No space left"):
            releases.keep(PLAN, 0, FIRST)
