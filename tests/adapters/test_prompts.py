"""Prompts: one placeholder for each image becomes as many as the image has tokens, in text and in ids alike."""

from __future__ import annotations

import re

import numpy as np
import pytest

from monopath import Client, GridThw, ImagePlan, Padding, Size
from monopath.prompts import GLM_VL, IMAGE_PROMPTS, KIMI_K3, KIMI_K25, KIMI_VL, QWEN_VL, ImagePrompt
from monopath_server.processors import types
from monopath_server.processors.plans import PatchGridPlan
from monopath_server.processors.presets import PRESETS

FAMILIES = [KIMI_K3, KIMI_K25, KIMI_VL, QWEN_VL, GLM_VL]
PLACEHOLDER_ID = 163605


class Tokenizer:
    """Control tokens are one id each, every other character is one too."""

    def __init__(self, placeholder: str) -> None:
        self._ids = {placeholder: PLACEHOLDER_ID}

    def encode(self, text: str) -> list[int]:
        return [self._ids.setdefault(token, len(self._ids)) for token in re.findall(r"<\|\w+\|>|.", text)]


def plan(width_px: int, height_px: int, token_count: int) -> ImagePlan:
    size = Size(width_px, height_px)
    return ImagePlan(size, size, Padding(0, 0), GridThw(1, 2, 2), token_count, None, (), 0)


PLANS = [plan(600, 400, 330), plan(1, 1, 1), plan(29, 27, 2)]


@pytest.mark.parametrize("prompt", FAMILIES)
def test_ids_are_expanded_as_the_text_is(prompt: ImagePrompt) -> None:
    image = prompt.unexpanded
    text = f"What is in {image}, and in {image}{image}?"
    tokenizer = Tokenizer(prompt.placeholder)
    expanded = prompt.expand_token_ids(tokenizer.encode(text), PLANS, PLACEHOLDER_ID, encode=tokenizer.encode)
    assert list(expanded.token_ids) == tokenizer.encode(prompt.expand_text(text, PLANS))
    whole = [prompt.text(plan) for plan in PLANS]
    assert prompt.expand_text(text, PLANS) == f"What is in {whole[0]}, and in {whole[1]}{whole[2]}?"


@pytest.mark.parametrize("prompt", FAMILIES)
def test_ranges_hold_the_placeholders_and_nothing_else(prompt: ImagePrompt) -> None:
    tokenizer = Tokenizer(prompt.placeholder)
    ids = np.array(tokenizer.encode(f"a{prompt.unexpanded * 3}b"))
    expanded = prompt.expand_token_ids(ids, PLANS, PLACEHOLDER_ID, encode=tokenizer.encode)  # type: ignore[arg-type]
    assert [one.length for one in expanded.ranges] == [plan.token_count for plan in PLANS]
    places = [place for one in expanded.ranges for place in range(one.offset, one.last + 1)]
    assert places == [place for place, token in enumerate(expanded.token_ids) if token == PLACEHOLDER_ID]
    assert all(type(token) is int for token in expanded.token_ids)


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        (KIMI_K3, "<|media_begin|>image 29x27<|media_content|><|media_pad|><|media_pad|><|media_end|>"),
        (KIMI_K25, "<|media_begin|>image<|media_content|><|media_pad|><|media_pad|><|media_end|>"),
        (KIMI_VL, "<|media_start|>image<|media_content|><|media_pad|><|media_pad|><|media_end|>"),
        (QWEN_VL, "<|vision_start|><|image_pad|><|image_pad|><|vision_end|>"),
        (GLM_VL, "<|begin_of_image|><|image|><|image|><|end_of_image|>"),
    ],
)
def test_an_image_is_written_as_the_family_writes_it(prompt: ImagePrompt, text: str) -> None:
    assert prompt.text(plan(29, 27, 2)) == text


@pytest.mark.parametrize("prompt", FAMILIES)
@pytest.mark.parametrize(("placeholder_count", "image_count"), [(3, 2), (1, 2), (0, 1), (1, 0)])
def test_another_number_of_placeholders_than_of_images_is_refused(
    prompt: ImagePrompt, placeholder_count: int, image_count: int
) -> None:
    tokenizer = Tokenizer(prompt.placeholder)
    text = prompt.unexpanded * placeholder_count
    message = f"Expected {image_count} image placeholders?, got {placeholder_count}$"
    with pytest.raises(ValueError, match=message):
        prompt.expand_text(text, PLANS[:image_count])
    with pytest.raises(ValueError, match=message):
        prompt.expand_token_ids(tokenizer.encode(text), PLANS[:image_count], PLACEHOLDER_ID, encode=tokenizer.encode)


def test_a_prompt_without_images_stays_as_it_is() -> None:
    assert KIMI_K25.expand_text("Hello", []) == "Hello"
    expanded = KIMI_K25.expand_token_ids([1, 2], [], PLACEHOLDER_ID)
    assert (expanded.token_ids, expanded.ranges) == ((1, 2), ())


def test_a_framing_with_sizes_needs_the_tokenizer() -> None:
    with pytest.raises(TypeError, match="Expected encode"):
        KIMI_K3.expand_token_ids([PLACEHOLDER_ID], PLANS[:1], PLACEHOLDER_ID)


def test_every_preset_has_its_prompt() -> None:
    # Those with a patch grid: CLIP and SigLIP are no language models, and InternVL has its prompt from its own code.
    grids = {name for name, config in PRESETS.items() if isinstance(config.plan(types.Size(640, 480)), PatchGridPlan)}
    assert set(IMAGE_PROMPTS) == grids


def test_a_prompt_follows_from_sizes_alone(client: Client) -> None:
    reply = client.plan([(600, 400), (1920, 1080)], preset="kimi-k3")
    plans = [image.plan for image in reply.images if image.plan is not None]
    text = KIMI_K3.expand_text("<|media_pad|> and <|media_pad|>", plans)
    # Token counts that other implementations of the processor publish.
    frames = [(600, 400, 330), (1920, 1080, 2691)]
    assert text == " and ".join(
        f"<|media_begin|>image {width}x{height}<|media_content|>{'<|media_pad|>' * count}<|media_end|>"
        for width, height, count in frames
    )
