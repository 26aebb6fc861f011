"""The public item table: pages in the order of the directory, written when a code in them has
changed, read back by a device as the same means."""

from __future__ import annotations

import numpy as np
import pytest

from producers.device.item_means import UNKNOWN_MEAN, ItemTable
from stream_app.agents.public_tables import ItemTablePages, mean_codes
from stream_app.wire import PAGE_ITEMS, ItemTablePage, WireError, decode_message, encode_message


class Learner:
    """Items with given biases: what the table asks of a learner."""

    mean = 3.5

    def __init__(self, biases: np.ndarray) -> None:
        self.biases = biases

    def items(self, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros((len(keys), 2), np.float32), self.biases[keys.astype(np.int64)]


KEYS = np.arange(PAGE_ITEMS + 10, dtype=np.uint64)


def learner() -> Learner:
    rng = np.random.default_rng(3)
    return Learner(rng.normal(0, 2, len(KEYS)).astype(np.float32))


def test_a_device_reads_the_means_that_the_server_wrote() -> None:
    model = learner()
    pages = [
        decode_message(ItemTablePage, encode_message(page))
        for page in ItemTablePages().due(KEYS, model, 7, 16)
    ]
    assert [page.page for page in pages] == [0, 1]
    table = ItemTable.from_pages(pages)
    expected = np.clip(3.5 + model.biases.astype(np.float64), 1, 5)
    np.testing.assert_allclose(table.means(KEYS), expected, rtol=0, atol=0.5 / 50 + 1e-9)
    assert table.means(np.array([2**40], np.uint64))[0] == pytest.approx(expected.mean(), abs=0.01)
    assert ItemTable().means(KEYS[:2]).tolist() == [UNKNOWN_MEAN] * 2


def test_only_pages_that_changed_are_written_again() -> None:
    model, pages = learner(), ItemTablePages()
    assert len(list(pages.due(KEYS, model, 1, 16))) == 2
    assert list(pages.due(KEYS, model, 2, 16)) == []
    model.biases[3] = 0.77
    assert [page.page for page in pages.due(KEYS, model, 3, 16)] == [0]
    more = np.arange(len(KEYS) + 1, dtype=np.uint64)
    model.biases = np.append(model.biases, np.float32(0))
    assert [page.page for page in pages.due(more, model, 4, 16)] == [1]


def test_a_large_table_is_compared_a_part_at_a_time() -> None:
    model, pages = learner(), ItemTablePages()
    assert [page.page for page in pages.due(KEYS, model, 1, 1)] == [0]
    assert [page.page for page in pages.due(KEYS, model, 1, 1)] == [1]
    assert list(pages.due(KEYS, model, 1, 1)) == []


def test_codes_stay_on_the_scale() -> None:
    model = Learner(np.array([-9, 9, 0], np.float32))
    assert mean_codes(model, KEYS[:3]).tolist() == [0, 200, 125]  # type: ignore[arg-type]


def test_a_page_out_of_order_is_skipped_and_a_false_one_does_no_harm() -> None:
    odd = ItemTablePage(0, 1, b"12345678", b"12")
    high = ItemTablePage(1, 1, (5).to_bytes(8, "little"), b"\xff")
    table = ItemTable.from_pages([odd, high])
    assert len(table) == 1
    assert table.means(np.array([5], np.uint64))[0] == 5.0


@pytest.mark.parametrize("value", [b"", b"{", b'{"v":2}', b"[]", b"\xff" * 10])
def test_an_invalid_page_is_refused(value: bytes) -> None:
    with pytest.raises(WireError):
        decode_message(ItemTablePage, value)
