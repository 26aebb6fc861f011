"""One pass over JSON events as `wire.encode_json` writes them, from bytes to columns.

    {"v":1,"device":"H","seq":N,"mechanism":"M","epoch":N,"items":[N,..],"reports":[N,..]}

H are the 32 characters of the record's key, 0-9 and a-f; N is a number without sign, fraction,
exponent, leading zero or space; M is a name of the allow-list, byte by byte. Nothing stands between
the parts, before the first or after the last. What is read here is thus also what a JSON parser
reads, with one value per field. Any other record, however valid, ends the pass: its run is left to
the parser, which alone decides what is refused and why.
"""

from __future__ import annotations

import numpy as np
from numba import njit

_MAX_SEQ, _MAX_EPOCH = np.uint64(2**62), np.uint64(2**32 - 1)  # those of `wire.limits`
_MAX_ITEM, _MAX_REPORT = np.uint64(2**63 - 1), np.uint64(255)
_MAX_RATINGS = 4096
_NONE = np.uint64(2**64 - 1)
_COMMA, _QUOTE = ord(","), ord('"')


def _bytes(text: bytes) -> np.ndarray:
    return np.frombuffer(text, np.uint8).copy()


_DEVICE = _bytes(b'{"v":1,"device":"')
_SEQ = _bytes(b'","seq":')
_MECHANISM = _bytes(b',"mechanism":"')
_EPOCH = _bytes(b'","epoch":')
_ITEMS = _bytes(b',"items":[')
_REPORTS = _bytes(b'],"reports":[')
_END = _bytes(b"]}")
_HEX = np.full(256, 255, np.uint8)
_HEX[_bytes(b"0123456789abcdef")] = np.arange(16, dtype=np.uint8)


@njit(cache=True, nogil=True, inline="always")
def _after(text, at, end, part):
    """Return the place after `part`, -1 if it does not stand at `at`, and for any `at` below 0."""
    stop = at + part.size
    if at < 0 or stop > end:
        return -1
    unlike = np.uint8(0)
    for j in range(part.size):  # without an exit, so that it is done in vectors
        unlike |= text[at + j] ^ part[j]
    return -1 if unlike else stop


@njit(cache=True, nogil=True, inline="always")
def _number(text, at, end, most):
    """Return the number at `at` and the place after it; (2^64 - 1, -1) if there is none <= most."""
    if at < 0:
        return _NONE, -1
    value, first = np.uint64(0), at
    while at < end and at < first + 20:
        digit = np.uint8(text[at] - np.uint8(48))
        if digit > np.uint8(9):
            break
        value = value * np.uint64(10) + np.uint64(digit)
        at += 1
    digits = at - first  # at most 19 of them fit in 64 bits, whichever they are
    if digits == 0 or digits > 19 or value > most or (digits > 1 and text[first] == 48):
        return _NONE, -1
    return value, at


@njit(cache=True, nogil=True, inline="always")
def _name(text, at, end, rules, likely):
    """Return the place in the allow-list of the name at `at`, tried first at `likely`; -1 if none
    is there with a quote behind it."""
    names, ends, _, _, _ = rules
    for turn in range(ends.size):
        k = (likely + turn) % ends.size
        begin = ends[k - 1] if k else 0
        stop = at + ends[k] - begin
        if begin == ends[k] or stop >= end or text[stop] != _QUOTE:
            continue
        same = True
        for j in range(ends[k] - begin):
            same &= text[at + j] == names[begin + j]
        if same:
            return k
    return -1


@njit(cache=True, nogil=True, inline="always")
def _home(keys, at, partitions):
    """Return the partition of the key at `at`, as `wire.partitions_of`."""
    m = np.uint32(0x5BD1E995)
    h = np.uint32(0x9747B28C ^ 32)
    for word in range(8):
        k = np.uint32(0)
        for j in range(4):
            k |= np.uint32(np.uint32(keys[at + 4 * word + j]) << np.uint32(8 * j))
        k = np.uint32(k * m)
        k = np.uint32((k ^ (k >> np.uint32(24))) * m)
        h = np.uint32(np.uint32(h * m) ^ k)
    h = np.uint32((h ^ (h >> np.uint32(13))) * m)
    h ^= h >> np.uint32(15)
    return np.int64(h & np.uint32(0x7FFFFFFF)) % partitions


@njit(cache=True, nogil=True, inline="always")
def _device(text, at, keys, key, out):
    """Write the pseudonym at `at` as two little-endian words; return whether it is the key."""
    wrong = np.uint8(0)
    for word in range(2):
        bits = np.uint64(0)
        for j in range(8):
            place = 16 * word + 2 * j
            high, low = _HEX[text[at + place]], _HEX[text[at + place + 1]]
            wrong |= (high | low) & np.uint8(0xF0)
            bits |= np.uint64((high << np.uint8(4)) | low) << np.uint64(8 * j)
        out[word] = bits
    for j in range(32):
        wrong |= text[at + j] ^ keys[key + j]
    return wrong == 0


@njit(cache=True, nogil=True, inline="always")
def _list(text, at, end, most, out, first):
    """Write the numbers from `at` on, separated by commas, into `out` from `first` on; return how
    many there are and the place after them, (0, -1) if one is wrong or there is no room."""
    count = 0
    while first + count < out.size and count < _MAX_RATINGS:
        value, at = _number(text, at, end, most)
        if at < 0:
            return 0, -1
        out[first + count] = value
        count += 1
        if at >= end or text[at] != _COMMA:
            return count, at
        at += 1
    return 0, -1


@njit(cache=True, nogil=True)
def scan_events(run, rules, found):
    """Write the columns of a run of n events; return the number of ratings, -1 if an event has not
    exactly this form or is to be refused.

    run    text (b,) uint8, the events one after the other; ends (n,) int64 in it; keys (32 n,)
           uint8, which are the record keys
    rules  names (c,) uint8 of the mechanisms, one after the other; ends (k,) int64 in them, an
           empty one for a mechanism that is left to the parser; alphabets (k,) int64; the run's
           partition, and the number of partitions
    found  what is written: devices (n, 2) uint64, seqs (n,) int64, mechanisms (n,) uint8, counts
           (n,) int64, epochs (n,) int64, items and reports (m,) uint64 and uint8
    """
    text, ends, keys = run
    _, _, alphabets, partition, partitions = rules
    devices, seqs, mechanisms, counts, epochs, items, reports = found
    total, chosen = 0, 0
    for i in range(ends.size):
        at = ends[i - 1] if i else 0
        end = ends[i]
        at = _after(text, at, end, _DEVICE)
        if at < 0 or at + 32 > end or not _device(text, at, keys, 32 * i, devices[i]):
            return -1
        if _home(keys, 32 * i, partitions) != partition:
            return -1
        at = _after(text, at + 32, end, _SEQ)
        seq, at = _number(text, at, end, _MAX_SEQ)
        at = _after(text, at, end, _MECHANISM)
        if at < 0 or seq == 0:
            return -1
        chosen = _name(text, at, end, rules, chosen)
        if chosen < 0:
            return -1
        at += rules[1][chosen] - (rules[1][chosen - 1] if chosen else 0)
        epoch, at = _number(text, _after(text, at, end, _EPOCH), end, _MAX_EPOCH)
        at = _after(text, at, end, _ITEMS)
        count, at = _list(text, at, end, _MAX_ITEM, items, total)
        at = _after(text, at, end, _REPORTS)
        reported, at = _list(text, at, end, _MAX_REPORT, reports, total)
        if _after(text, at, end, _END) != end or reported != count:
            return -1
        for j in range(total, total + count):
            if reports[j] >= alphabets[chosen]:
                return -1
        seqs[i], epochs[i] = seq, epoch
        mechanisms[i], counts[i] = chosen, count
        total += count
    return total
