"""Moving bytes by address in compiled code."""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils

from monopath_server.transforms.cpu.vector import (
    INT8,
    INT16,
    INT32,
    INT64,
    Builder,
    Value,
    add_bytes,
    address_intrinsic,
    call_llvm,
    constant,
    load,
    pointer,
    store,
    vector,
)

__all__ = [
    "copy_bytes",
    "fence",
    "load_uint8",
    "load_uint16",
    "load_uint32",
    "move_64_bytes",
    "prefetch",
    "prefetch_for_writing",
    "store_uint8",
    "store_uint16",
    "store_uint32",
    "stream_64_bytes",
]


def emit_prefetch(builder: Builder, address: Value, *, is_written: bool = False) -> None:
    """Emit a hint that `address` is read or written soon; any address will do."""
    purpose, keep_in_all_caches, data = constant(INT32, int(is_written)), constant(INT32, 3), constant(INT32, 1)
    arguments = [pointer(builder, address, INT8), purpose, keep_in_all_caches, data]
    call_llvm(builder, "llvm.prefetch.p0", ir.VoidType(), arguments)


@address_intrinsic
def prefetch(builder: Builder, address: Value) -> None:
    """Ask for the cache line of `address`."""
    emit_prefetch(builder, address)


@address_intrinsic
def prefetch_for_writing(builder: Builder, address: Value) -> None:
    """Ask for the cache line of `address`, to be written to."""
    emit_prefetch(builder, address, is_written=True)


@address_intrinsic
def copy_bytes(builder: Builder, source: Value, target: Value, byte_count: Value) -> None:
    """Copy bytes between places that do not overlap."""
    byte = INT8.as_pointer()
    pointers = builder.inttoptr(target, byte), builder.inttoptr(source, byte)
    cgutils.raw_memcpy(builder, *pointers, byte_count, 1)  # type: ignore[no-untyped-call]


@address_intrinsic
def stream_64_bytes(builder: Builder, source: Value, target: Value) -> None:
    """Copy 64 bytes past the caches; both addresses are multiples of 16."""
    non_temporal = builder.module.add_metadata([constant(INT32, 1)])
    for offset in range(0, 64, 16):
        quarter = load(builder, add_bytes(builder, source, offset), vector(INT32, 4), 16)
        store(builder, quarter, add_bytes(builder, target, offset), 16).set_metadata("nontemporal", non_temporal)


@address_intrinsic
def move_64_bytes(builder: Builder, source: Value, target: Value) -> None:
    """Copy 64 bytes between places that may overlap; both addresses are multiples of 16."""
    store(builder, load(builder, source, vector(INT32, 16), 16), target, 16)


@address_intrinsic
def load_uint8(builder: Builder, address: Value) -> Value:
    """Load one byte."""
    return builder.zext(load(builder, address, INT8), INT64)


@address_intrinsic
def load_uint16(builder: Builder, address: Value) -> Value:
    """Load two bytes."""
    return builder.zext(load(builder, address, INT16), INT64)


@address_intrinsic
def load_uint32(builder: Builder, address: Value) -> Value:
    """Load four bytes."""
    return builder.zext(load(builder, address, INT32), INT64)


@address_intrinsic
def store_uint8(builder: Builder, address: Value, value: Value) -> None:
    """Store the low byte of `value`."""
    store(builder, builder.trunc(value, INT8), address)


@address_intrinsic
def store_uint16(builder: Builder, address: Value, value: Value) -> None:
    """Store the low two bytes of `value`."""
    store(builder, builder.trunc(value, INT16), address)


@address_intrinsic
def store_uint32(builder: Builder, address: Value, value: Value) -> None:
    """Store the low four bytes of `value`."""
    store(builder, builder.trunc(value, INT32), address)


@address_intrinsic
def fence(builder: Builder) -> None:
    """Order every store before it against every store after it, streamed ones included."""
    builder.fence("seq_cst")
