"""Compiles every kernel that production can launch to machine code, and looks for what must not be in it.

Needs no GPU, no driver and no C compiler: Triton brings ptxas and nvdisasm. Run as
`python -m tests.numerics.compile_kernels [sm_90 ...]`, in a process that does not interpret.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from monopath_server.processors.types import RowLayout
from monopath_server.transforms.cuda.layout import filter_constants, tile_shape, write_constants
from monopath_server.transforms.cuda.runtime import Kernels, load_kernels

ARCHITECTURES = {"sm_80": 80, "sm_90": 90, "sm_100": 100}
RAW_TYPES = ("u8", "i16", "i32")
RELEASED_LAYOUT = RowLayout(14, 14)
"""All released checkpoints; compiled in every variant for every architecture."""
OTHER_PATCH_SIZES = (1, 16, 64)
"""The ends of the range and a power of two; compiled in the variant that has everything, for sm_90."""
OTHER_FAMILIES_LAYOUTS = (
    RowLayout(14, 14, 2, 2),
    RowLayout(16, 16, 2, 2),
    RowLayout(448, 448),
    RowLayout(336, 336),
    RowLayout(25, 24),
)
"""Windows and frames of Qwen-VL and GLM, tiles of InternVL, images of CLIP, and one that is no square; for sm_90."""

FILTER_POINTERS = {"words": "*i32", "descriptors": "*i64", "tiles": "*i32", "coefficients": "*i32"}
WRITE_POINTERS = FILTER_POINTERS | {"square_parity": "*u8", "alpha_tables": "*u8"}

FLOAT_OR_DIVISION_IN_PTX = re.compile(r"\.(?:b?f16x?2?|f32|f64|tf32)\b|\b(?:div|rem|rcp|sqrt)\.")
# FLO, FENCE and DEPBAR deal in integers or in nothing. HFMA2.MMA on zeros is how ptxas may load a constant.
FLOAT_IN_SASS = re.compile(r"^(?:U?F(?!LO|ENCE)|D(?!EPBAR)|H|MUFU|U?I2F|F2|RRO)")
OPCODE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P[T\d]+\s+)?([A-Z][A-Z0-9_.]*)", re.MULTILINE)


@dataclass(frozen=True)
class Variant:
    """One kernel with its types and constants fixed."""

    name: str
    kernel: Any
    pointers: dict[str, str]
    constants: dict[str, int]
    warps: int


def variants(
    kernels: Kernels,
    layout: RowLayout,
    raw_types: tuple[str, ...],
) -> Iterator[Variant]:
    """All that a transform of this layout of rows can launch."""
    tiles = tile_shape(layout)
    for has_alpha in (False, True):
        name = f"filter_first_axis alpha={has_alpha:d}"
        constants = filter_constants(tiles, has_alpha=has_alpha)
        yield Variant(name, kernels.filter_first_axis, FILTER_POINTERS, constants, tiles.filter_warps)
        for raw_type in raw_types:
            pointers = WRITE_POINTERS | {"element_table": f"*{raw_type}", "output": f"*{raw_type}"}
            for has_second_axis in (False, True):
                name = f"write_patches {raw_type} of {layout}, alpha={has_alpha:d} second={has_second_axis:d}"
                constants = write_constants(tiles, layout, has_alpha=has_alpha, has_second_axis=has_second_axis)
                yield Variant(name, kernels.write_patches, pointers, constants, tiles.write_warps)


def compile_variant(variant: Variant, capability: int) -> Any:
    """Compile as a launch would: every pointer is known to be a multiple of 16."""
    from triton import compiler
    from triton.backends.compiler import GPUTarget

    names = list(variant.pointers)
    signature = variant.pointers | dict.fromkeys(variant.constants, "constexpr")
    attributes = {(names.index(name),): [["tt.divisibility", 16]] for name in names}
    source = compiler.ASTSource(fn=variant.kernel, signature=signature, constexprs=variant.constants, attrs=attributes)
    options = {"num_warps": variant.warps, "enable_fp_fusion": False}
    return compiler.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def disassemble(cubin: bytes) -> list[str]:
    """The opcodes of a cubin, in order."""
    import triton.backends.nvidia

    tool = Path(triton.backends.nvidia.__file__).parent / "bin" / "nvdisasm"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        listing = subprocess.run([tool, "-c", file.name], capture_output=True, text=True, check=True).stdout
    opcodes = OPCODE.findall(listing)
    if "EXIT" not in opcodes or not any(opcode.startswith("IMAD") for opcode in opcodes):
        raise RuntimeError(f"Expected the machine code of a kernel, got {len(opcodes)} opcodes")
    return opcodes


def forbidden(compiled: Any) -> list[str]:
    """What is in the code of a kernel that must not be there."""
    found = sorted({match.group() for match in FLOAT_OR_DIVISION_IN_PTX.finditer(compiled.asm["ptx"])})
    opcodes = disassemble(compiled.asm["cubin"])
    return found + sorted({opcode for opcode in opcodes if FLOAT_IN_SASS.match(opcode)})


def check_that_the_search_finds(capability: int) -> None:
    """Compile a kernel that has all of it, since a search that finds nothing anywhere would pass everything.

    Raises:
        RuntimeError: the search overlooked something.
    """
    import triton
    import triton.language as tl

    @triton.jit
    def wrong(values, divisors):  # type: ignore[no-untyped-def]
        place = tl.arange(0, 32)
        quotient = tl.load(values + place) // tl.load(divisors + place)
        tl.store(values + place, (quotient.to(tl.float32) * 0.1).to(tl.int32))

    found = forbidden(
        compile_variant(Variant("wrong", wrong, {"values": "*i32", "divisors": "*i32"}, {}, 1), capability)
    )
    for expected in (r"\.f32", r"div\.", "MUFU", "FMUL"):
        if not any(re.match(expected, entry) for entry in found):
            raise RuntimeError(f"Expected the search to find {expected} in a wrong kernel, got {found}")


@dataclass(frozen=True)
class Job:
    """What one process compiles at a time: all that one layout of rows takes, for one architecture."""

    architecture: str
    layout: RowLayout
    raw_types: tuple[str, ...]
    names: str = ""
    """Only kernels with this in their names."""
    most: int | None = None
    """Only so many, the last ones, which have everything. None: all."""


def jobs(architecture: str) -> Iterator[Job]:
    """All of an architecture, the largest first."""
    yield Job(architecture, RELEASED_LAYOUT, RAW_TYPES)
    if architecture == "sm_90":
        for layout in OTHER_FAMILIES_LAYOUTS:
            # Alpha is gone before such a transform, and the first axis knows no layout.
            yield Job(architecture, layout, RAW_TYPES, names="alpha=0 second")
        for patch_size in OTHER_PATCH_SIZES:
            yield Job(architecture, RowLayout(patch_size, patch_size), ("i16",), most=1)


def run_job(job: Job) -> tuple[int, int]:
    """Compile and report; returns how many variants that were, and how many of them are wrong."""
    kernels = load_kernels(interpreted=False)
    capability = ARCHITECTURES[job.architecture]
    if job.layout == RELEASED_LAYOUT:
        check_that_the_search_finds(capability)
    work = [variant for variant in variants(kernels, job.layout, job.raw_types) if job.names in variant.name]
    if job.most is not None:
        work = work[-job.most :]
    failures = 0
    for variant in work:
        found = forbidden(compile_variant(variant, capability))
        failures += bool(found)
        if found:
            sys.stdout.write(f"{job.architecture} {variant.name} has {' '.join(found)}\n")
    return len(work), failures


def main(architectures: list[str]) -> int:
    """Compile for the architectures named, or for all, and return the exit status."""
    work = [job for architecture in architectures or ARCHITECTURES for job in jobs(architecture)]
    with (
        tempfile.TemporaryDirectory() as cache,
        ProcessPoolExecutor(os.cpu_count() or 1, get_context("spawn")) as pool,
    ):
        os.environ["TRITON_CACHE_DIR"] = cache
        # Nothing can be found there: making machine code takes no compiler of the host.
        os.environ["PATH"] = cache
        os.environ.pop("CC", None)
        os.environ.pop("TRITON_INTERPRET", None)
        results = list(pool.map(run_job, work))
    count = sum(count for count, _ in results)
    failures = sum(failures for _, failures in results)
    sys.stdout.write(f"{count} kernels compiled, {failures} with a floating-point or division instruction\n")
    return 1 if failures or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
