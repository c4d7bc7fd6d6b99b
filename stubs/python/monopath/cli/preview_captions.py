"""What stands below the pictures of a preview."""

from __future__ import annotations

from monopath import ImagePlan, KimiConfig, Padding, Size
from monopath._records import resample_kernel_word
from monopath.cli.output import bytes_text, grid_text, size_text
from monopath.cli.preview_original import Original
from monopath.cli.preview_picture import Fit, Grid
from monopath.cli.preview_streams import Seen
from monopath.v1 import config_pb2
from monopath_server.processors.types import ResampleKernel
from monopath_server.processors.types import Size as ServerSize
from monopath_server.transforms.pass_order import vertical_first

__all__ = ["background_words", "original_lines", "resize_words", "seen_lines"]

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


def seen_lines(seen: Seen, original: Original | str, grid: Grid, how: Fit) -> list[str]:
    """Describe what a model sees of an image, how it came about, and how it is drawn."""
    plan, processor = seen.plan, seen.processor
    return [
        f"{_size(plan.original_size)} px, {_resized(plan)}, {_padded(plan)}",
        _grid(seen, processor),
        f"resize: {resize_words(plan, processor, original.mode if isinstance(original, Original) else '')}",
        *([f"background: {background_words(processor, original)}"] if isinstance(original, Original) else []),
        f"made by: {_ROUTES.get(seen.route, seen.route)}",
        f"sha256: rows {seen.features_sha256[:_DIGEST_DIGITS]}, config {seen.config_sha256[:_DIGEST_DIGITS]}",
        f"{how.words}; {grid.words(how.scale)}",
    ]


def resize_words(plan: ImagePlan, processor: KimiConfig, mode: str) -> str:
    """Say what filter made the resized picture, and which axis it took first: that decides the bytes."""
    before, after = plan.original_size, plan.resized_size
    if before == after:
        return "none"
    in_own_mode = processor.transparent_bg_fill_stage == config_pb2.TRANSPARENT_FILL_STAGE_AFTER_RESIZE
    if in_own_mode and mode in _UNBLENDED_MODES:
        return "nearest, as palette and 1-bit pixels are resized before they are converted"
    if before.width_px == after.width_px:
        return "bicubic, vertical only"
    if before.height_px == after.height_px:
        return "bicubic, horizontal only"
    word = resample_kernel_word(processor.resample_kernel)
    try:
        kernel = ResampleKernel(word)
    except ValueError:
        return f"bicubic ({word})"
    vertical = vertical_first(
        kernel, ServerSize(before.width_px, before.height_px), ServerSize(after.width_px, after.height_px)
    )
    first, second = ("vertical", "horizontal") if vertical else ("horizontal", "vertical")
    return f"bicubic, {first} pass, then {second} ({word})"


def background_words(processor: KimiConfig, original: Original) -> str:
    """Say what lies behind the transparent pixels of an image."""
    if not original.has_alpha:
        return "not needed, the file has no transparency"
    if not processor.HasField("transparent_bg_config"):
        return "none: alpha is dropped, the stored colours show"
    if original.mode == "RGB":
        return "none: the colour key of RGB files is ignored"
    background = processor.transparent_bg_config
    pattern = config_pb2.BackgroundPattern.Name(background.pattern).removeprefix("BACKGROUND_PATTERN_").lower()
    if background.pattern == config_pb2.BACKGROUND_PATTERN_CHESSBOARD:
        white, gray = background.chessboard_white_value, background.chessboard_gray_value
        pattern += f" of {background.chessboard_square_size} px squares, {white} and {gray}"
    is_late = processor.transparent_bg_fill_stage == config_pb2.TRANSPARENT_FILL_STAGE_AFTER_RESIZE
    return f"{pattern}, {'after' if is_late else 'before'} the resize"


def _size(size: Size) -> str:
    return size_text((size.width_px, size.height_px))


def _resized(plan: ImagePlan) -> str:
    if plan.original_size == plan.resized_size:
        return "not resized"
    return f"resized to {_size(plan.resized_size)}"


def _padded(plan: ImagePlan) -> str:
    padding, resized = plan.padding, plan.resized_size
    if padding == Padding(0, 0):
        return "not padded"
    return f"padded to {resized.width_px + padding.right_px}x{resized.height_px + padding.bottom_px}"


def _grid(seen: Seen, processor: KimiConfig) -> str:
    merge_size, grid = processor.merge_kernel_size, seen.grid_thw
    return (
        f"grid {grid_text(seen.plan)}: {grid.t * grid.h * grid.w} patches of "
        f"{processor.patch_size} px; {seen.plan.token_count} tokens of {merge_size}x{merge_size}"
    )


def _percent(share: float) -> str:
    return "under 1 %" if share < 0.01 else f"{share * 100:.0f} %"
