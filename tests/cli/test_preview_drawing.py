"""What `monopath preview` draws: pixels between lines, words that are true, and nothing upon each other."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFont

from monopath import Crop, DataType, GridThw, ImagePlan, Padding, PreprocessingPath, Size, TileGrid
from monopath.cli import preview_text
from monopath.cli.options import ProcessorChoice
from monopath.cli.preview_blocks import Block, Panel, make_block
from monopath.cli.preview_captions import background_words, resize_words
from monopath.cli.preview_difference import difference
from monopath.cli.preview_original import Original, read_original
from monopath.cli.preview_page import box_px, make_page
from monopath.cli.preview_parts import pictures
from monopath.cli.preview_picture import Fit, Grid, draw_frame, draw_grid, fit, scaled
from monopath.cli.preview_rows import Pixels
from monopath.cli.preview_streams import Seen, Unseen
from monopath.cli.preview_text import TextSize, text_width_px, wrapped
from monopath.cli.preview_views import View
from monopath_server.processors.family import ProcessorConfig
from monopath_server.processors.presets import PRESETS
from monopath_server.processors.types import Background, BackgroundPattern, ResampleKernel
from monopath_server.reference import RawImage, reference_features
from monopath_server.reference.generated import generated_pixels
from tests.demo.checkpoints import reference_config


def seen_of(pixels: Pixels) -> Seen:
    """What a server would have returned for RGB pixels that are not resized."""
    height_px, width_px = pixels.shape[:2]
    raw = RawImage(width_px, height_px, "RGB8", pixels.tobytes())
    features = reference_features(raw, reference_config("kimi-k2.5"), "UINT8")
    rows, grid = features.pixel_values, GridThw(*features.grid_thw)
    size = Size(width_px, height_px)
    padding = Padding(grid.w * 14 - width_px, grid.h * 14 - height_px)
    plan = ImagePlan(size, size, padding, grid, grid.h * grid.w // 4, "uint8", rows.shape, rows.nbytes)
    return seen(rows, plan, PRESETS["kimi-k2.5"])


def seen(rows: Pixels, plan: ImagePlan, config: ProcessorConfig) -> Seen:
    """What a server would have returned."""
    return Seen(tuple(pictures(rows, plan, config)), plan, config, "ab" * 32, "cd" * 32, "host")


def variant(preset: str, **fields: object) -> ProcessorConfig:
    """A preset with other values in some of its fields."""
    config: Any = PRESETS[preset]
    changed: ProcessorConfig = dataclasses.replace(config, **fields)
    return changed


def png(pixels: Pixels, folder: Path) -> bytes:
    """A file with these pixels."""
    file = folder / "pixels.png"
    Image.fromarray(pixels).save(file)
    return file.read_bytes()


def view(name: str = "kimi-k2.5", path: PreprocessingPath = PreprocessingPath.DEFERRED_CPU) -> View:
    """A view of a preset."""
    return View(name, path, ProcessorChoice(name, None, None, None))


@pytest.mark.parametrize(
    ("source_px", "drawn_px", "words"),
    [
        ((28, 28), (448, 448), "drawn 16:1 (nearest)"),
        ((400, 100), (800, 200), "drawn 2:1 (nearest)"),
        ((700, 300), (700, 300), "drawn 1:1"),
        ((2100, 1568), (800, 597), "drawn 1:2.6 (box filter)"),
        ((28, 7168), (3, 800), "drawn 1:9 (box filter)"),
        ((7168, 1), (800, 1), "drawn 1:9 (box filter)"),
    ],
)
def test_pictures_are_magnified_by_whole_numbers_or_shrunk_to_fit(
    source_px: tuple[int, int], drawn_px: tuple[int, int], words: str
) -> None:
    how = fit(source_px, (800, 800))
    assert (how.drawn_px, how.words) == (drawn_px, words)
    assert scaled(np.zeros((source_px[1], source_px[0], 3), np.uint8), how).shape == (drawn_px[1], drawn_px[0], 3)


def test_only_lines_cover_the_pixels_of_a_picture() -> None:
    picture = np.full((56, 84, 3), 77, np.uint8)
    how = Fit((84, 56), (84 * 4, 56 * 4))
    drawn = scaled(picture, how)
    draw_grid(drawn, how, Grid(14, 2, (70, 40)))
    changed = (drawn != 77).any(axis=2)
    expected_columns = {28 * 4, 56 * 4, 70 * 4, 14 * 4, 42 * 4}
    columns = np.flatnonzero(changed[2])
    assert {int(column) for column in columns if column in expected_columns} == expected_columns
    assert all(min(abs(int(column) - line) for line in expected_columns) <= 2 for column in columns)
    lines = np.flatnonzero(changed[:, 2])
    expected_lines = {28 * 4, 40 * 4, 14 * 4, 42 * 4}
    assert all(min(abs(int(line) - wanted) for wanted in expected_lines) <= 2 for line in lines)


@pytest.mark.parametrize("level", [0, 128, 255])
def test_lines_are_seen_upon_every_brightness(level: int) -> None:
    picture = np.full((56, 56, 3), level, np.uint8)
    how = Fit((56, 56), (56, 56))
    draw_grid(picture, how, Grid(14, 2, (50, 56)))
    across = picture[5].astype(int)
    for position in (28, 50):
        near = across[position - 1 : position + 3]
        assert np.abs(near - level).max() > 60


def test_the_lines_of_a_large_picture_keep_their_distance() -> None:
    grid = Grid(14, 2, (4000, 3000))
    assert (grid.window_step(1.0), grid.shows_patches(1.0)) == (1, True)
    assert (grid.window_step(0.3), grid.words(0.3)) == (2, "lines at each 2nd window")
    assert (grid.window_step(0.2), grid.words(0.2)) == (4, "lines at each 4th window")
    assert (grid.window_step(0.45), grid.words(0.45)) == (1, "lines at each window")


def test_a_frame_stays_within_the_picture() -> None:
    for box in ((95, 45, 100, 50), (0, 0, 1, 1), (10, 10, 60, 40), (98, 48, 100, 50)):
        picture = Image.new("RGB", (100, 50), (9, 9, 9))
        draw_frame(picture, box)
        assert (np.asarray(picture) == 255).any()
    draw_frame(Image.new("RGB", (3, 4)), (0, 0, 3, 4))


def test_a_difference_is_counted_and_stays_visible_when_it_is_drawn_small() -> None:
    first = np.zeros((1000, 2000, 3), np.uint8)
    second = first.copy()
    second[501, 1203] = (0, 3, 0)
    second[502, 7] = (2, 0, 1)
    found = difference(first, second)
    assert (found.value_count, found.pixel_count, found.largest, found.factor) == (3, 2, 3, 85)
    assert found.words == "3 of 6,000,000 values differ (less than 0.1 %), in 2 pixels; by 3 at most"
    drawn = found.drawn(Fit((2000, 1000), (200, 100)))
    assert drawn.shape == (100, 200, 3)
    assert drawn[50, 120].tolist() == [0, 255, 0]
    assert drawn[50, 0].tolist() == [170, 0, 85]
    assert np.count_nonzero(drawn) == 3
    assert difference(first, first).words == "none of 6,000,000 values differs"
    with pytest.raises(ValueError, match="Expected pictures of one size"):
        difference(first, first[1:])


@pytest.mark.parametrize(
    ("before", "after", "kernel", "mode", "words"),
    [
        ((90, 50), (90, 50), "PILLOW_13", "RGB", "none"),
        ((900, 5000), (762, 4234), "PILLOW_13", "RGB", "bicubic, vertical pass, then horizontal (pillow_13)"),
        ((900, 5000), (762, 4234), "PILLOW_11", "RGB", "bicubic, horizontal pass, then vertical (pillow_11)"),
        ((4000, 3000), (2073, 1554), "PILLOW_13", "L", "bicubic, horizontal pass, then vertical (pillow_13)"),
        ((9000, 1), (7168, 1), "PILLOW_13", "RGB", "bicubic, horizontal only"),
        ((1, 9000), (1, 7168), "PILLOW_13", "RGB", "bicubic, vertical only"),
        (
            (4000, 3000),
            (2073, 1554),
            "PILLOW_13",
            "P",
            "nearest, as palette and 1-bit pixels are resized before they are converted",
        ),
    ],
)
def test_the_order_of_the_resize_is_told(
    before: tuple[int, int], after: tuple[int, int], kernel: str, mode: str, words: str
) -> None:
    plan = ImagePlan(Size(*before), Size(*after), Padding(0, 0), GridThw(1, 2, 2), 1, "uint8", (4, 3, 14, 14), 2352)
    config = variant("kimi-k3", resample_kernel=ResampleKernel[kernel])
    assert resize_words(plan, config, mode) == words


def test_what_lies_behind_transparent_pixels_is_told() -> None:
    def original(mode: str, *, has_alpha: bool) -> Original:
        return Original(np.zeros((1, 1, 3), np.uint8), "PNG", mode, 1, 0.0, has_alpha)

    with_background = variant(
        "kimi-k3",
        transparent_background=Background(
            BackgroundPattern.CHESSBOARD, chessboard_square_size=8, chessboard_gray_value=180
        ),
    )
    assert background_words(with_background, original("RGB", has_alpha=False)).startswith("not needed")
    assert background_words(PRESETS["kimi-k2.5"], original("RGBA", has_alpha=True)).startswith("none: alpha is dropped")
    assert background_words(with_background, original("RGB", has_alpha=True)).startswith("none: the colour key")
    assert (
        background_words(with_background, original("RGBA", has_alpha=True))
        == "chessboard of 8 px squares, 255 and 180, after the resize"
    )


def test_a_file_is_shown_upright_only_where_that_was_asked_for_and_upon_violet(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    half = Image.new("RGBA", (40, 20), (0, 0, 0, 0))
    half.paste((10, 20, 30, 255), (0, 0, 20, 20))
    half.save(tmp_path / "half.png", exif=exif)
    content = (tmp_path / "half.png").read_bytes()
    stored = read_original(content, apply_orientation=False)
    turned = read_original(content, apply_orientation=True)
    assert isinstance(stored, Original)
    assert isinstance(turned, Original)
    assert (stored.pixels.shape, turned.pixels.shape) == ((20, 40, 3), (40, 20, 3))
    assert (stored.exif_orientation, turned.exif_orientation) == (6, 6)
    assert (stored.transparent_share, stored.has_alpha, stored.mode) == (0.5, True, "RGBA")
    assert stored.pixels[0, 0].tolist() == [10, 20, 30]
    assert stored.pixels[0, 39].tolist() == [214, 188, 255]
    assert read_original(b"no image", apply_orientation=False) == "it is no image that Pillow knows"


def test_sixteen_bits_are_shown_by_their_high_byte(tmp_path: Path) -> None:
    Image.fromarray(np.array([[0, 0x1234, 0xFFFF]], np.uint16)).save(tmp_path / "deep.png")
    found = read_original((tmp_path / "deep.png").read_bytes(), apply_orientation=False)
    assert isinstance(found, Original)
    assert found.pixels[0, :, 0].tolist() == [0, 0x12, 0xFF]


def test_the_panel_of_a_view_shows_the_rows_between_its_lines(tmp_path: Path) -> None:
    pixels = generated_pixels(90, 50, 3)
    block = make_block("1. it", png(pixels, tmp_path), [view()], DataType.UINT8, [seen_of(pixels)], (112, 56))
    file_panel, seen_panel, detail = block.panels
    np.testing.assert_array_equal(np.asarray(file_panel.picture), pixels)
    # At 1:1 the lines are those of the grid, the resized picture's edge, the frame, and their shadows.
    inner = np.asarray(seen_panel.picture)[3:12, 3:12]
    np.testing.assert_array_equal(inner, pixels[3:12, 3:12])
    assert block.has_detail
    assert detail.title.startswith("detail")
    assert any("grid 1x4x8: 32 patches of 14 px; 8 tokens of 2x2" in line for line in seen_panel.lines)
    assert "90x50 px, not resized, padded to 112x56" in seen_panel.lines
    assert "drawn 1:1; lines at each patch and window" in seen_panel.lines


def test_two_views_of_one_size_have_their_difference_and_others_say_why_not(tmp_path: Path) -> None:
    pixels = generated_pixels(90, 50, 3)
    content = png(pixels, tmp_path)
    views = [view(), view("kimi-k3")]
    first, other = seen_of(pixels), seen_of(np.where(pixels < 255, pixels + 1, 255).astype(np.uint8))
    block = make_block("1. it", content, views, DataType.UINT8, [first, other], (400, 400))
    assert [panel.title for panel in block.panels] == [
        "the file",
        "kimi-k2.5, DEFERRED_CPU, uint8",
        "kimi-k3, DEFERRED_CPU, uint8",
        "difference",
    ]
    [found] = block.differences
    assert found.largest == 1
    assert block.panels[3].lines == [found.words, "drawn 255 times as bright; drawn 3:1 (nearest)"]
    larger = seen_of(generated_pixels(120, 50, 3))
    assert make_block("1. it", content, views, DataType.UINT8, [first, larger], (400, 400)).differences == []
    failed = make_block("1. it", content, views, DataType.UINT8, [first, Unseen("CANCELLED", "Gone")], (400, 400))
    assert (failed.differences, len(failed.panels)) == ([], 4)


def test_tiles_are_numbered_and_their_thumbnail_stands_beside_them(tmp_path: Path) -> None:
    pixels = generated_pixels(96, 64, 3)
    config = variant("internvl2.5", tile_size=32, tokens_per_tile=None)
    tiles = pixels.reshape(2, 32, 3, 32, 3).transpose(0, 2, 4, 1, 3).reshape(6, 3, 32, 32)
    small = generated_pixels(32, 32, 3)
    rows = np.concatenate([tiles, small.transpose(2, 0, 1)[None]])
    size = Size(96, 64)
    plan = ImagePlan(
        *(size, size, Padding(0, 0), None, 0, "uint8", rows.shape, rows.nbytes),
        tile_grid=TileGrid(3, 2, has_thumbnail=True, tile_size_px=32),
    )
    sight = seen(rows, plan, config)
    np.testing.assert_array_equal(sight.pictures[0].pixels, pixels)
    np.testing.assert_array_equal(sight.pictures[1].pixels, small)
    content = png(pixels, tmp_path)
    block = make_block("1. it", content, [view("internvl2.5")], DataType.UINT8, [sight], (400, 400))
    assert [panel.title.partition(": ")[2] for panel in block.panels] == ["", "", "thumbnail"]
    assert "3x2 tiles of 32 px and a thumbnail; the config does not say how many tokens" in block.panels[1].lines
    assert (
        block.panels[1].lines[-1]
        == block.panels[2].lines[-1]
        == ("numbers: the row of `pixel_values` that holds the tile")
    )
    assert block.panels[2].lines[0].startswith("row 6 of the features: ")
    two = make_block("1. it", content, [view()] * 2, DataType.UINT8, [sight, sight], (400, 400))
    assert [panel.title for panel in two.panels[-2:]] == ["difference", "difference: thumbnail"]
    assert [found.value_count for found in two.differences] == [0, 0]
    with pytest.raises(ValueError, match="Expected 7 rows of features, got 8"):
        seen(np.concatenate([rows, rows[:1]]), plan, config)


def test_an_image_of_one_row_is_told_with_its_crop_and_the_encoders_patches(tmp_path: Path) -> None:
    pixels = generated_pixels(224, 224, 3)
    rows = pixels.transpose(2, 0, 1)[None]
    plan = ImagePlan(
        *(Size(448, 900), Size(224, 450), Padding(0, 0), None, 257, "uint8", rows.shape, rows.nbytes),
        fixed_size=Size(224, 224),
        crop=Crop(0, 113, 224, 224),
    )
    sight = seen(rows, plan, PRESETS["clip-vit-l-14"])
    views = [view("clip-vit-l-14")]
    block = make_block("1. it", png(pixels, tmp_path), views, DataType.UINT8, [sight], (400, 400))
    _, panel = block.panels
    assert panel.lines[:3] == [
        "448x900 px, resized to 224x450, cropped to 224x224 from column 0, line 113",
        "one row; 257 tokens: patches of 14 px, and 1 more",
        "resize: bicubic, horizontal pass, then vertical (aten_u8)",
    ]
    assert panel.lines[-1] == "drawn 1:1; lines at each patch"


@settings(deadline=None)
@given(st.text(max_size=60), st.integers(40, 400))
def test_broken_lines_fit_and_lose_nothing(text: str, width_px: int) -> None:
    lines = wrapped(text, TextSize.NORMAL, width_px)
    assert all(len(line) == 1 or text_width_px(line, TextSize.NORMAL) <= width_px for line in lines)
    assert "".join("".join(lines).split(" ")) == "".join(text.split(" "))


def test_a_page_of_eight_images_with_two_views_is_below_4000_pixels() -> None:
    width_px, height_px = box_px(8)
    picture = Image.new("RGB", (width_px, height_px))
    lines = ["nothing here is long enough to be broken"] * 7
    block = Block("8. name", [Panel("a title", lines, picture)] * 4)
    page = make_page([block] * 8, "footer")
    assert max(page.size) < 4000


def test_pictures_and_their_words_do_not_lie_upon_each_other() -> None:
    colors = [(255, 0, 0), (0, 255, 0), (0, 0, 255)]
    blocks = [
        Block("name " * 60, [Panel("title " * 20, ["words " * 40] * 3, Image.new("RGB", (60, 30), color))] * 3)
        for color in colors
    ]
    page = np.asarray(make_page(blocks, "footer"))
    for color in colors:
        # Text upon a picture would hide some of its pixels.
        assert np.count_nonzero((page == color).all(axis=2)) == 3 * 60 * 30


def test_a_pillow_without_freetype_draws_words_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with_bitmaps = ImageFont.load_default_imagefont()

    def load_default(size: float | None = None) -> ImageFont.ImageFont:
        if size is not None:
            raise ImportError("The _imagingft C module is not installed")
        return with_bitmaps

    monkeypatch.setattr(ImageFont, "load_default", load_default)
    preview_text._font.cache_clear()
    try:
        panel = Panel("title", ["\N{GREEK SMALL LETTER ALPHA}\x1b words"], Image.new("RGB", (20, 20)))
        page = make_page([Block("1. \N{SNOWMAN}.png", [panel])], "footer")
    finally:
        preview_text._font.cache_clear()
    assert np.asarray(page).min() < 100
