"""The buffer pool: memory is handed out once, kept within its bound, and given back on every way out."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monopath_server.engine.buffers import BufferPool

MIB = 1024 * 1024


def test_a_released_buffer_is_handed_out_again() -> None:
    pool = BufferPool(idle_bytes=64 * MIB)
    first = pool.take(5 * MIB)
    address = first.array.ctypes.data
    first.release()
    second = pool.take(5 * MIB)
    assert second.array.ctypes.data == address
    second.release()
    assert pool.held_bytes == 0


def test_two_holders_never_share_memory() -> None:
    pool = BufferPool(idle_bytes=64 * MIB)
    with pool.take(MIB) as first, pool.take(MIB) as second:
        first.array[:] = 1
        second.array[:] = 2
        assert first.array.min() == 1


def test_a_released_buffer_cannot_be_used_and_releasing_again_does_nothing() -> None:
    pool = BufferPool(idle_bytes=64 * MIB)
    buffer = pool.take(MIB)
    buffer.release()
    buffer.release()
    assert pool.idle_bytes == MIB
    with pytest.raises(RuntimeError, match="released"):
        _ = buffer.array


def test_a_buffer_is_released_when_its_block_fails() -> None:
    pool = BufferPool(idle_bytes=64 * MIB)
    with pytest.raises(KeyError), pool.take(MIB):
        raise KeyError
    assert pool.held_bytes == 0


def test_idle_memory_stays_within_its_bound_and_the_oldest_goes_first() -> None:
    pool = BufferPool(idle_bytes=3 * MIB)
    buffers = [pool.take(MIB) for _ in range(5)]
    addresses = [buffer.array.ctypes.data for buffer in buffers]
    for buffer in buffers:
        buffer.release()
    assert pool.idle_bytes == 3 * MIB
    kept = [pool.take(MIB) for _ in range(3)]
    assert {buffer.array.ctypes.data for buffer in kept} == set(addresses[2:])


def test_memory_larger_than_the_bound_is_not_kept() -> None:
    pool = BufferPool(idle_bytes=MIB)
    pool.take(10 * MIB).release()
    assert pool.idle_bytes == 0


@given(st.lists(st.integers(1, 3 * MIB), min_size=1, max_size=20))
def test_every_size_is_exact_and_wastes_at_most_a_quarter(sizes: list[int]) -> None:
    pool = BufferPool(idle_bytes=8 * MIB)
    for size_bytes in sizes:
        with pool.take(size_bytes) as buffer:
            assert buffer.array.shape == (size_bytes,)
            assert size_bytes <= pool.held_bytes <= max(64 * 1024, size_bytes * 1.25)
    assert pool.held_bytes == 0
