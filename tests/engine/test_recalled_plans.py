"""Plans that the cache remembers: no header is read again, and nothing else is taken for the same image."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from monopath_server.engine import images
from monopath_server.engine.images import ImagePlanner, PlannedImage, decode_planned
from monopath_server.engine.items import EncodedSource
from monopath_server.engine.resources import Resources
from monopath_server.engine.workers import CancelToken
from monopath_server.faults import ItemFault, ItemReason
from monopath_server.processors.types import ElementType
from tests.engine.test_image_work import CONFIG, FILE, OTHER_FILE, item, resources

__all__ = ["resources"]


@pytest.mark.parametrize("by_loop", [True, False])
@pytest.mark.asyncio
async def test_a_plan_that_is_remembered_needs_no_header_and_the_image_can_still_be_made(
    resources: Resources, monkeypatch: pytest.MonkeyPatch, by_loop: bool
) -> None:
    """The features may be dropped between the plan and the time when they are asked for."""
    planner = ImagePlanner(CONFIG, ElementType.UINT8, resources)
    asked = item(EncodedSource(FILE))
    first = await planner.plan(lambda: asked, None)
    key, _ = await planner.key(first, CancelToken())
    known = {key: first.plan}
    with monkeypatch.context() as patch:
        patch.setattr(images, "open_header", lambda *_: pytest.fail("opened a file whose plan is known"))
        if by_loop:
            patch.setattr(resources.workers, "plan", lambda _: pytest.fail("gave a worker what the loop can tell"))
        planned = await planner.plan(asked if by_loop else lambda: asked, known.get)
    assert (planned.plan, planned.header) == (first.plan, None)
    decoded = [
        decode_planned(one, CONFIG, CancelToken(), resources.buffers, resources.limits) for one in (first, planned)
    ]
    assert decoded[0].prepared.pixels.tobytes() == decoded[1].prepared.pixels.tobytes()
    assert decoded[0].content_sha256 == decoded[1].content_sha256
    for one in decoded:
        one.release()


@pytest.mark.asyncio
async def test_a_remembered_plan_is_of_the_whole_key_and_of_content_that_was_not_contradicted(
    resources: Resources,
) -> None:
    planner = ImagePlanner(CONFIG, ElementType.UINT8, resources)
    asked = item(EncodedSource(FILE))
    planned = await planner.plan(lambda: asked, None)
    key, _ = await planner.key(planned, CancelToken())
    known = {key: planned.plan}
    assert (await planner.plan(asked, known.get)).header is None
    assert (await planner.plan(item(EncodedSource(OTHER_FILE)), known.get)).header is not None
    other_planner = ImagePlanner(CONFIG, ElementType.FLOAT32, resources)
    assert (await other_planner.plan(asked, known.get)).header is not None
    wrong = item(EncodedSource(FILE), expected_sha256=bytes(32))
    for image in (wrong, lambda: wrong):
        with pytest.raises(ItemFault) as caught:
            await planner.plan(image, known.get)
        assert caught.value.reason is ItemReason.CONTENT_DIGEST_MISMATCH


@pytest.mark.asyncio
async def test_the_event_loop_hashes_small_images_alone(resources: Resources, monkeypatch: pytest.MonkeyPatch) -> None:
    planner = ImagePlanner(CONFIG, ElementType.UINT8, resources)
    plan = (await planner.plan(item(EncodedSource(FILE)), None)).plan
    given_to_workers = []
    plan_in_worker = resources.workers.plan

    async def recording(job: Callable[[], PlannedImage]) -> PlannedImage:
        given_to_workers.append(job)
        return await plan_in_worker(job)

    monkeypatch.setattr(resources.workers, "plan", recording)
    for extra_bytes, is_small in ((0, True), (images.HASHED_BY_LOOP_BYTES, False)):
        given_to_workers.clear()
        await planner.plan(item(EncodedSource(FILE + bytes(extra_bytes))), lambda _: plan)
        assert bool(given_to_workers) is not is_small
