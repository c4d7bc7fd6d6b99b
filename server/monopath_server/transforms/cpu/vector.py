"""Portable vectors in LLVM's own language.

No instruction of one processor is named, so one source becomes AVX-512, AVX2, SSE or NEON code. Numba's own vectoriser
leaves the same loops scalar.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numba
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

__all__ = [
    "FLOAT",
    "INT8",
    "INT16",
    "INT32",
    "INT64",
    "Builder",
    "Value",
    "add_bytes",
    "address_intrinsic",
    "broadcast",
    "call_llvm",
    "clamp_to_uint8",
    "compiled",
    "constant",
    "fused_multiply_add",
    "load",
    "shuffle",
    "splat",
    "store",
    "vector",
]

# llvmlite has no type information of its own; these two names say what is meant.
Builder = Any
Value = Any
Function = TypeVar("Function", bound=Callable[..., Any])

INT8: Final = ir.IntType(8)
INT16: Final = ir.IntType(16)
INT32: Final = ir.IntType(32)
INT64: Final = ir.IntType(64)
FLOAT: Final = ir.FloatType()


def compiled(function: Function) -> Function:
    """Compile a function with numba on its first call; it runs without the GIL."""
    return cast("Function", numba.njit(nogil=True, error_model="numpy")(function))


def address_intrinsic(emit: Callable[..., Value | None]) -> Callable[..., Any]:
    """Make a function of compiled code out of one that emits LLVM instructions.

    `emit` takes the instruction builder and then int64 values: addresses, lengths, indices. It returns an int64 value,
    or None where the made function returns nothing.
    """
    names = list(inspect.signature(emit).parameters)[1:]
    returns_value = inspect.signature(emit).return_annotation not in (None, "None")
    signature = (types.int64 if returns_value else types.void)(*[types.int64] * len(names))

    def generate(context: Any, builder: Builder, _: Any, arguments: Any) -> Value:
        result = emit(builder, *arguments)
        return result if returns_value else context.get_dummy_value()

    def implement(*_: Any) -> Any:
        return signature, generate

    # Numba binds arguments by the names it finds here.
    positional = inspect.Parameter.POSITIONAL_OR_KEYWORD
    implement.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, positional) for name in ("typing_context", *names)]
    )
    implement.__name__ = implement.__qualname__ = emit.__name__
    made: Callable[..., Any] = intrinsic(implement)
    return made


def vector(element: Any, lanes: int) -> Any:
    """Return the type of a vector."""
    return ir.VectorType(element, lanes)


def constant(element: Any, value: Any) -> Value:
    """Return a scalar constant."""
    return ir.Constant(element, value)


def splat(element: Any, lanes: int, value: Any) -> Value:
    """Return a vector constant with one value in all lanes."""
    return ir.Constant(vector(element, lanes), [value] * lanes)


def add_bytes(builder: Builder, address: Value, byte_count: int) -> Value:
    """Add a constant to an address."""
    return builder.add(address, constant(INT64, byte_count)) if byte_count else address


def pointer(builder: Builder, address: Value, element: Any) -> Value:
    """Turn an address into a pointer to `element`."""
    return builder.inttoptr(address, element.as_pointer())


def load(builder: Builder, address: Value, element: Any, align_bytes: int = 1) -> Value:
    """Load a scalar or a vector."""
    return builder.load(pointer(builder, address, element), align=align_bytes)


def store(builder: Builder, value: Value, address: Value, align_bytes: int = 1) -> Value:
    """Store a scalar or a vector; returns the instruction."""
    return builder.store(value, pointer(builder, address, value.type), align=align_bytes)


def shuffle(builder: Builder, first: Value, second: Value | None, lanes: list[int]) -> Value:
    """Pick lanes of two vectors laid end to end (of one, where `second` is None)."""
    other = ir.Constant(first.type, ir.Undefined) if second is None else second
    return builder.shuffle_vector(first, other, ir.Constant(vector(INT32, len(lanes)), lanes))


def broadcast(builder: Builder, scalar: Value, lanes: int) -> Value:
    """Copy one scalar into all lanes of a vector."""
    undefined = ir.Constant(vector(scalar.type, lanes), ir.Undefined)
    return shuffle(builder, builder.insert_element(undefined, scalar, constant(INT32, 0)), None, [0] * lanes)


def call_llvm(builder: Builder, name: str, result: Any, arguments: list[Value]) -> Value:
    """Call one of LLVM's own intrinsics."""
    function_type = ir.FunctionType(result, [argument.type for argument in arguments])
    function = cgutils.get_or_insert_function(builder.module, function_type, name)  # type: ignore[no-untyped-call]
    return builder.call(function, arguments)


def clamp_to_uint8(builder: Builder, value: Value, lanes: int) -> Value:
    """Clamp int32 lanes to 0..255 and narrow them to bytes."""
    wide = vector(INT32, lanes)
    value = call_llvm(builder, f"llvm.smax.v{lanes}i32", wide, [value, splat(INT32, lanes, 0)])
    value = call_llvm(builder, f"llvm.smin.v{lanes}i32", wide, [value, splat(INT32, lanes, 255)])
    return builder.trunc(value, vector(INT8, lanes))


def fused_multiply_add(builder: Builder, x: Value, y: Value, z: Value, lanes: int) -> Value:
    """Return x * y + z with one rounding, in float32 lanes."""
    return call_llvm(builder, f"llvm.fma.v{lanes}f32", vector(FLOAT, lanes), [x, y, z])
