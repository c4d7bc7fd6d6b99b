"""What stands below the pictures of a preview."""

from __future__ import annotations

from monopath import Crop, ImagePlan, Padding, Size
from monopath.cli.output import bytes_text, grid_text, size_text
from monopath.cli.preview_original import Original
from monopath.cli.preview_parts import Picture, merge_size
from monopath.cli.preview_picture import Fit
from monopath.cli.preview_streams import Seen
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.fixed_size.config import FixedSizeConfig
from monopath_server.processors.types import BackgroundPattern, FillStage
from monopath_server.processors.types import Size as ServerSize
from monopath_server.transforms.pass_order import vertical_first

__all__ = ["background_words", "original_lines", "part_lines", "resize_words", "seen_lines"]

_DIGEST_DIGITS = 12
_UNBLENDED_MODES = ("1", "P")
_ROUTES = {
    "client": "the client",
    "host": "the server's CPU",
    "host_pillow": "the server's CPU, pixels by Pillow",
    "device": "the server's GPU",
}


def original_lines(original: Original, size_bytes: int, how: Fit, *, applies_orientation: bool) -> list[str]:
    """Describe a file and how it is drawn."""
    height_px, width_px = original.pixels.shape[:2]
    lines = [f"{original.format}, mode {original.mode}, {width_px}x{height_px} px, {bytes_text(size_bytes)}"]
    if original.exif_orientation != 1:
        done = "applied" if applies_orientation else "ignored: pixels as stored"
        lines.append(f"EXIF orientation {original.exif_orientation}, {done}")
    if original.transparent_share:
        lines.append(f"{_percent(original.transparent_share)} of the pixels are not opaque (upon violet)")
    return [*lines, how.words]


def seen_lines(seen: Seen, original: Original | str) -> list[str]:
    """Describe what a model sees of an image, and how it came about."""
    plan, config = seen.plan, seen.config
    return [
        f"{_size(plan.original_size)} px, {_resized(plan)}, {_cut(plan)}",
        _rows(plan, config),
        f"resize: {resize_words(plan, config, original.mode if isinstance(original, Original) else '')}",
        *([f"background: {background_words(config, original)}"] if isinstance(original, Original) else []),
        f"made by: {_ROUTES.get(seen.route, seen.route)}",
        f"sha256: rows {seen.features_sha256[:_DIGEST_DIGITS]}, config {seen.config_sha256[:_DIGEST_DIGITS]}",
    ]


def part_lines(picture: Picture, how: Fit) -> list[str]:
    """Describe how a picture of the rows is drawn, and which rows it is of where there are others."""
    part = picture.part
    drawn = how.words if part.grid is None else f"{how.words}; {part.grid.words(how.scale)}"
    if not part.name:
        return [drawn]
    return [f"row {part.first_row} of the features: all of the image, resized once more", drawn]


def resize_words(plan: ImagePlan, config: ProcessorConfig, mode: str) -> str:
    """Say what filter made the resized picture, and which axis it took first: that decides the bytes."""
    before, after = plan.original_size, plan.resized_size
    arithmetic = config.arithmetic
    if before == after:
        return "none"
    if arithmetic.fill_stage is FillStage.AFTER_RESIZE and mode in _UNBLENDED_MODES:
        return "nearest, as palette and 1-bit pixels are resized before they are converted"
    filter_name = arithmetic.resample_filter.value
    if before.width_px == after.width_px:
        return f"{filter_name}, vertical only"
    if before.height_px == after.height_px:
        return f"{filter_name}, horizontal only"
    vertical = vertical_first(
        arithmetic.resample_kernel,
        ServerSize(before.width_px, before.height_px),
        ServerSize(after.width_px, after.height_px),
    )
    first, second = ("vertical", "horizontal") if vertical else ("horizontal", "vertical")
    return f"{filter_name}, {first} pass, then {second} ({arithmetic.resample_kernel.value})"


def background_words(config: ProcessorConfig, original: Original) -> str:
    """Say what lies behind the transparent pixels of an image."""
    if not original.has_alpha:
        return "not needed, the file has no transparency"
    arithmetic = config.arithmetic
    background = arithmetic.background
    if background is None:
        return "none: alpha is dropped, the stored colours show"
    if original.mode == "RGB" and not arithmetic.reads_color_keys:
        return "none: the colour key of RGB files is ignored"
    pattern = background.pattern.value
    if background.pattern is BackgroundPattern.CHESSBOARD:
        white, gray = background.chessboard_white_value, background.chessboard_gray_value
        pattern += f" of {background.chessboard_square_size} px squares, {white} and {gray}"
    return f"{pattern}, {'after' if arithmetic.fill_stage is FillStage.AFTER_RESIZE else 'before'} the resize"


def _size(size: Size) -> str:
    return size_text((size.width_px, size.height_px))


def _resized(plan: ImagePlan) -> str:
    if plan.original_size == plan.resized_size:
        return "not resized"
    return f"resized to {_size(plan.resized_size)}"


def _cut(plan: ImagePlan) -> str:
    padding, resized, crop = plan.padding, plan.resized_size, plan.crop
    if crop is not None and crop != Crop(0, 0, resized.width_px, resized.height_px):
        return f"cropped to {crop.width_px}x{crop.height_px} from column {crop.left_px}, line {crop.top_px}"
    if padding == Padding(0, 0):
        return "not padded"
    return f"padded to {resized.width_px + padding.right_px}x{resized.height_px + padding.bottom_px}"


def _rows(plan: ImagePlan, config: ProcessorConfig) -> str:
    tokens = f"{plan.token_count} tokens" if plan.token_count else "the config does not say how many tokens"
    layout = config.arithmetic.layout
    if plan.grid_thw is not None:
        side = merge_size(config)
        frames = f", each {layout.temporal_copies} times" if layout.temporal_copies > 1 else ""
        patches = f"{plan.grid_thw.h * plan.grid_thw.w} patches of {layout.patch_width_px} px{frames}"
        return f"grid {grid_text(plan)}: {patches}; {tokens} of {side}x{side}"
    if plan.tile_grid is not None:
        tiles = plan.tile_grid
        thumbnail = " and a thumbnail" if tiles.has_thumbnail else ""
        return f"{tiles.columns}x{tiles.rows} tiles of {tiles.tile_size_px} px{thumbnail}; {tokens}"
    if not isinstance(config, FixedSizeConfig) or config.patch_size is None:
        return f"one row; {tokens}"
    others = f", and {config.class_token_count} more" if config.class_token_count else ""
    return f"one row; {tokens}: patches of {config.patch_size} px{others}"


def _percent(share: float) -> str:
    return "under 1 %" if share < 0.01 else f"{share * 100:.0f} %"
