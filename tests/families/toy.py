"""A family of nobody's, made of one module: no resize, one patch a token, three copies of each channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from monopath.v1 import config_pb2
from monopath_server.faults import ConfigViolation
from monopath_server.processors.arithmetic import PixelArithmetic
from monopath_server.processors.family import CanonicalForm, Family, ParsedConfig, ProcessorConfig
from monopath_server.processors.plans import PatchGridPlan
from monopath_server.processors.types import GridTHW, Normalization, Padding, ResampleKernel, RowLayout, Size
from monopath_server.serving.families.adapter import FamilyAdapter

__all__ = ["TOY", "TOY_ADAPTER", "ToyConfig"]

SIDE_PX = 10


@dataclass(frozen=True, slots=True)
class ToyConfig(ProcessorConfig):
    """Patches of 10 pixels, in raster order."""

    family: ClassVar[str] = "toy"
    kernels: ClassVar[tuple[ResampleKernel, ...]] = (ResampleKernel.PILLOW_13,)

    mean: float

    @property
    def arithmetic(self) -> PixelArithmetic:
        return PixelArithmetic(
            layout=RowLayout(SIDE_PX, SIDE_PX, temporal_copies=3),
            image_mean=(self.mean, 0.5, 0.5),
            image_std=(1.0, 1.0, 1.0),
            normalization=Normalization.PIL_BACKEND,
            resample_kernel=ResampleKernel.PILLOW_13,
            longest_resized_side_px=SIDE_PX,
        )

    def plan(self, size: Size) -> PatchGridPlan:
        padding = Padding(-size.width_px % SIDE_PX, -size.height_px % SIDE_PX)
        grid = GridTHW(1, -(-size.height_px // SIDE_PX), -(-size.width_px // SIDE_PX))
        return PatchGridPlan(
            original_size=size,
            resized_size=size,
            token_count=grid.patch_count,
            padding=padding,
            grid_thw=grid,
            patch_size=SIDE_PX,
            temporal_copies=3,
        )

    def violations(self) -> tuple[ConfigViolation, ...]:
        return (ConfigViolation("mean", "Expected at most 1"),) if self.mean > 1 else ()

    def canonical_form(self) -> CanonicalForm:
        return {"mean": self.mean.hex()}


def _parse(values: dict[str, object], _prefix: str) -> ParsedConfig[ToyConfig]:
    return ParsedConfig(ToyConfig(float(str(values["mean"]))), ())


TOY = Family("toy", frozenset({"ToyImageProcessor"}), frozenset(), _parse, {"toy": ToyConfig(0.25)})
# The contract has no message for it, so it is echoed by name.
TOY_ADAPTER = FamilyAdapter(
    arm="toy",
    config_type=ToyConfig,
    read=lambda _: ToyConfig(0.25),
    write=lambda _: config_pb2.ProcessorConfig(preset=config_pb2.PresetConfig(name="toy")),
)
