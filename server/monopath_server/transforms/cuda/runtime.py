"""The one place that imports the kernels, and so decides whether this process compiles or interprets them."""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
from typing import Any

__all__ = ["Kernels", "check_int32_overflow", "load_kernels"]

_INTERPRET = "TRITON_INTERPRET"
_lock = threading.Lock()
_loaded: Kernels | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Kernels:
    """The two kernels, to be launched as `kernel[(program_count,)](...)`. Triton has no types, hence Any."""

    filter_first_axis: Any
    write_patches: Any
    is_interpreted: bool


def load_kernels(*, interpreted: bool) -> Kernels:
    """Import Triton and the kernels: compiled for a GPU, or interpreted on the CPU (slow: for tests and trials).

    Triton reads `TRITON_INTERPRET` once, when it is first imported, so a process has one mode for good.

    Raises:
        RuntimeError: the process already is in the other mode.
    """
    global _loaded
    with _lock:
        if _loaded is None:
            if interpreted and "triton" in sys.modules and os.environ.get(_INTERPRET) != "1":
                raise RuntimeError("Expected Triton not to be imported before the interpreter is chosen, got it loaded")
            if interpreted:
                os.environ[_INTERPRET] = "1"
            from monopath_server.transforms.cuda import kernels

            # The wrapper that Triton chose tells which mode it is really in, whatever the environment said.
            is_interpreted = type(kernels.write_patches).__name__ == "InterpretedFunction"
            if is_interpreted:
                check_int32_overflow(False)
            _loaded = Kernels(kernels.filter_first_axis, kernels.write_patches, is_interpreted)
        if _loaded.is_interpreted != interpreted:
            wanted, got = ("interpreted", "compiled") if interpreted else ("compiled", "interpreted")
            raise RuntimeError(f"Expected {wanted} kernels, got a process whose Triton kernels are {got}")
        return _loaded


def check_int32_overflow(is_checked: bool) -> None:
    """Let the interpreter check every sum and product, or not: the checks more than double its time.

    The bounds of `coefficients` prove that there is no overflow; a test turns the checks on.
    """
    from triton.runtime import interpreter

    builder = interpreter.interpreter_builder
    # Not in Triton's documented interface: where it is missing, the checks simply stay.
    if hasattr(getattr(builder, "options", None), "sanitize_overflow"):
        builder.options = dataclasses.replace(builder.options, sanitize_overflow=is_checked)
