"""Mutants of what several parties run: mechanisms, wire, kernels, models, campaigns, research."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SHARED = (
    Mutant(
        name="a cell is reported once more than its rounds",
        file="stream_app/privacy/ratings/item_sampling.py",
        old="if not 0 <= past < self.rounds * self.period:",
        new="if not 0 <= past <= self.rounds * self.period:",
        seen="in one epoch after the last round cells cost an epsilon that nobody agreed to",
        first=("tests/stream_app/privacy/ratings/test_item_sampling.py",),
    ),
    Mutant(
        name="the places of a list are discounted from another base",
        file="stream_app/evaluation/ranking/list_quality.py",
        old="    gains = 1 / np.log2(np.arange(lists.shape[1]) + 2)\n",
        new="    gains = 1 / np.log2(np.arange(lists.shape[1]) + 1.5)\n",
        seen="the figures of lists are not those of other recommenders",
        first=("tests/stream_app/evaluation/ranking/test_list_quality.py",),
    ),
    Mutant(
        name="a filter holds more items than its cap",
        file="stream_app/privacy/profiles/blip.py",
        old="addresses(first_items(items, self.most), self.hashes, self.length)",
        new="addresses(items, self.hashes, self.length)",
        seen="a profile of many items costs more than the epsilon of its id",
        first=("tests/stream_app/privacy/profiles/test_cap.py",),
    ),
    Mutant(
        name="a signature does not name its topic",
        file="stream_app/wire/signatures/envelope.py",
        old='return b"%b%b\\0%b" % (_DOMAIN, topic.encode(), event)',
        new='return b"%b\\0%b" % (_DOMAIN, event)',
        seen="an event can be replayed into another deployment, where it counts",
        first=("tests/stream_app/wire/test_signatures.py",),
    ),
    Mutant(
        name="a device whose newest event is as old as the limit stays",
        file="stream_app/kernels/stream/deduplication.py",
        old="days[row] == LATE or days[row] > numbers[OLDEST]:",
        new="days[row] == LATE or days[row] >= numbers[OLDEST]:",
        seen="rows of devices that are gone are kept for a day more than the memory is planned for",
        first=("tests/stream_app/state/test_evicted_devices.py",),
    ),
    Mutant(
        name="the page of the total of counts is not marked as changed",
        file="stream_app/kernels/sketches/count_min_cells.py",
        old="    if keys.size:\n        touch_word(total_pages, 0)\n",
        new="",
        seen="a restarted worker has an older total than its peers, and its digest differs",
        first=("tests/stream_app/models/test_pages.py",),
    ),
    Mutant(
        name="an index that takes over does not keep the wanted recall",
        file="stream_app/models/retrieval/auto_index.py",
        old="        self._index.level = self._level\n",
        new="",
        seen="the setting recall has no effect once the catalogue has grown",
        first=("tests/stream_app/models/test_retrieval_indexes.py",),
    ),
    Mutant(
        name="a short history is divided by its own length",
        file="stream_app/ranking/similarity/cosine.py",
        old="found /= np.float32(max(len(rows), least_profile, 1))",
        new="found /= np.float32(max(len(rows), 1))",
        seen="one report moves a score by more than the guarantee of the list says",
        first=("tests/stream_app/ranking/similarity/test_formulas.py",),
    ),
    Mutant(
        name="a box that was sealed for another device or stage is taken",
        file="stream_app/campaigns/sealing.py",
        old="return plain[CONTEXT_BYTES:] if plain[:CONTEXT_BYTES] == context else None",
        new="return plain[CONTEXT_BYTES:]",
        seen="a stranger sends a copy of a person's vector under other pseudonyms",
        first=("tests/stream_app/campaigns/test_sealing.py",),
    ),
    Mutant(
        name="what a party has released is not synced",
        file="stream_app/aggregation/releases.py",
        old="            os.fdatasync(self._handle)\n",
        new="",
        seen="after a power cut a party can release another sum of the same people",
        first=("tests/stream_app/aggregation/test_keys.py",),
    ),
    Mutant(
        name="a bound does not share its error among the thresholds",
        file="research/audits/bounds.py",
        old="_beyond(present, absent, cut, alpha / (2 * len(cuts)))",
        new="_beyond(present, absent, cut, alpha / 2)",
        seen="an audit refutes true claims more often than it states",
        first=("tests/research/audits/test_statistics.py",),
    ),
    Mutant(
        name="a password is taken from the command line",
        file="stream_app/cli/options.py",
        old="        if is_secret(name):\n",
        new="        if not name:\n",
        seen="every user of the machine reads the broker's password in the list of processes",
        first=("tests/stream_app/cli/test_options.py",),
    ),
)
