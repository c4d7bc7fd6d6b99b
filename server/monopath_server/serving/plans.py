"""Plans, written as the contract's message."""

from __future__ import annotations

from monopath.v1 import geometry_pb2, tensor_pb2
from monopath_server.processors.plans import FixedSizePlan, PatchGridPlan, TilePlan
from monopath_server.processors.types import Crop, ElementType, ImagePlan, Size
from monopath_server.serving.enums import DATA_TYPES

__all__ = ["plan_message"]


def plan_message(plan: ImagePlan, element_type: ElementType | None) -> geometry_pb2.ImagePlan:
    """A plan; with the tensor that will follow where the element type is known."""
    message = geometry_pb2.ImagePlan(
        original_size=_size(plan.original_size),
        resized_size=_size(plan.resized_size),
        # There even where they say nothing: a client of the contract's 1.2 wants to find them.
        padding=geometry_pb2.Padding(),
        grid_thw=geometry_pb2.GridThw(),
        token_count=plan.token_count,
    )
    if element_type is not None:
        message.features.CopyFrom(
            tensor_pb2.TensorSpec(
                data_type=DATA_TYPES.to_wire(element_type),
                shape=plan.shape,
                size_bytes=plan.feature_bytes(element_type),
            )
        )
    match plan:
        case PatchGridPlan():
            message.padding.right_px, message.padding.bottom_px = plan.padding.right_px, plan.padding.bottom_px
            grid = plan.grid_thw
            message.grid_thw.t, message.grid_thw.h, message.grid_thw.w = grid.t, grid.h, grid.w
            if plan.crop is not None:
                message.crop.CopyFrom(_crop(plan.crop))
        case TilePlan():
            tiles = plan.tile_grid
            message.tile_grid.CopyFrom(
                geometry_pb2.TileGrid(
                    columns=tiles.columns,
                    rows=tiles.rows,
                    has_thumbnail=tiles.has_thumbnail,
                    tile_size_px=tiles.tile_size,
                )
            )
        case FixedSizePlan():
            message.fixed_size.CopyFrom(_size(plan.crop.size))
            if plan.crop != Crop(0, 0, plan.resized_size):
                message.crop.CopyFrom(_crop(plan.crop))
        case _:
            raise TypeError(f"Expected a plan that has a message, got a {type(plan).__name__}")
    return message


def _size(size: Size) -> geometry_pb2.Size:
    return geometry_pb2.Size(width_px=size.width_px, height_px=size.height_px)


def _crop(crop: Crop) -> geometry_pb2.Crop:
    return geometry_pb2.Crop(
        left_px=crop.left_px, top_px=crop.top_px, width_px=crop.size.width_px, height_px=crop.size.height_px
    )
