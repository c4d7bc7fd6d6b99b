"""The check at start-up: it passes here, and notices what it is there for."""

from __future__ import annotations

import PIL
import pytest
from PIL import Image

from monopath_server.processors.ranges import ChannelValues
from monopath_server.processors.types import PILLOW_KERNELS, ElementType, Normalization, ResampleKernel, Size
from monopath_server.transforms import self_check, tables


def test_this_machine_and_its_pillow_are_exact() -> None:
    self_check.check_arithmetic()


@pytest.mark.parametrize(
    ("version", "kernel"),
    [
        ("11.3.0", ResampleKernel.PILLOW_11),
        ("12.0.0", ResampleKernel.PILLOW_11),
        ("12.1.1", ResampleKernel.PILLOW_11),
        ("12.2.0", ResampleKernel.PILLOW_12_2),
        ("12.3.0", ResampleKernel.PILLOW_12_2),
        ("13.0.0", ResampleKernel.PILLOW_13),
        ("13.1.0.dev0", ResampleKernel.PILLOW_13),
        ("14.0", ResampleKernel.PILLOW_13),
    ],
)
def test_each_pillow_is_believed_to_be_its_kernel(
    version: str, kernel: ResampleKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PIL, "__version__", version)

    assert self_check.installed_resample_kernel() is kernel


@pytest.mark.parametrize("wrong", PILLOW_KERNELS, ids=lambda kernel: kernel.name)
def test_a_wrong_belief_about_the_installed_pillow_is_noticed(
    wrong: ResampleKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    if wrong is self_check.installed_resample_kernel():
        self_check.check_arithmetic()
        return
    monkeypatch.setattr(self_check, "installed_resample_kernel", lambda: wrong)

    with pytest.raises(RuntimeError, match=f"Pillow {PIL.__version__} resizes .* unlike {wrong.name}"):
        self_check.check_arithmetic()


def test_a_pillow_of_other_weights_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    exact_resize = Image.Image.resize

    def other_resize(image: Image.Image, size: tuple[int, int], resample: Image.Resampling) -> Image.Image:
        other = Image.Resampling.BILINEAR if image.size[0] != size[0] and image.size[1] != size[1] else resample
        return exact_resize(image, size, other)

    monkeypatch.setattr(Image.Image, "resize", other_resize)

    with pytest.raises(RuntimeError, match="resizes 60 x 40 to 30 x 20"):
        self_check.check_arithmetic()


@pytest.mark.parametrize("element_type", ElementType)
def test_one_wrong_element_is_noticed_and_named(element_type: ElementType, monkeypatch: pytest.MonkeyPatch) -> None:
    exact_table = tables.element_table

    def other_table(
        mean: ChannelValues, std: ChannelValues, made_type: ElementType, normalization: Normalization
    ) -> tables.ElementBits:
        table = exact_table(mean, std, made_type, normalization)
        if made_type is not element_type:
            return table
        table = table.copy()
        table[1, 100] ^= 1
        table.setflags(write=False)
        return table

    monkeypatch.setattr(tables, "element_table", other_table)

    with pytest.raises(RuntimeError) as caught:
        self_check.check_arithmetic()

    assert f"kimi-k2.5 in {element_type.name} of 150 x 400" in str(caught.value)
    for other in ElementType:
        assert (f"in {other.name} " in str(caught.value)) == (other is element_type)


def test_generated_pixels_are_the_published_ones() -> None:
    pixels = self_check.generated_pixels(Size(3, 2), 3)

    assert pixels.tolist() == [
        [[0, 97, 194], [14, 111, 208], [34, 131, 228]],
        [[18, 115, 212], [39, 136, 233], [66, 163, 4]],
    ]
