"""Settings by their effects, where no other test is about them; `tests/cli/test_setting_effects.py` lists all."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from monopath_server.engine import host
from monopath_server.engine.devices import Devices
from monopath_server.engine.engines import Engines
from monopath_server.engine.images import PlannedImage, decode_planned
from monopath_server.media.limits import ImageLimits
from monopath_server.processors.presets import PRESETS
from monopath_server.processors.types import ElementType
from monopath_server.settings import DeviceMode
from tests.engine.test_batcher import transform
from tests.stream.test_order import Gate
from tests.support.server import quick_settings
from tests.support.stream import encoded, make_config, make_item, photo, png, raw_pixels, running_rig

WIDTH_PX, HEIGHT_PX = 50, 40
FILE = png(photo(WIDTH_PX, HEIGHT_PX))
ITEM_COUNT = 8


@pytest.mark.parametrize("worker_count", [1, 3])
@pytest.mark.asyncio
async def test_so_many_workers_decode_at_the_same_time(worker_count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    all_are_busy = threading.Event()
    lock = threading.Lock()
    threads: set[int] = set()

    def counting(planned: PlannedImage, *arguments: Any) -> Any:
        with lock:
            threads.add(threading.get_ident())
            if len(threads) == worker_count:
                all_are_busy.set()
        assert all_are_busy.wait(30)
        return decode_planned(planned, *arguments)

    monkeypatch.setattr(host, "decode_planned", counting)
    async with running_rig(quick_settings(worker_count=worker_count)) as rig:
        await rig.run([make_item(item_id, encoded(FILE)) for item_id in range(1, ITEM_COUNT + 1)])
    assert len(threads) == worker_count


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (ImageLimits(max_side_px=WIDTH_PX - 1), "IMAGE_TOO_LARGE"),
        (ImageLimits(max_pixels=WIDTH_PX * HEIGHT_PX - 1), "IMAGE_TOO_LARGE"),
        (ImageLimits(max_encoded_bytes=len(FILE) - 1), "IMAGE_BYTES_EXCEEDED"),
        (ImageLimits(WIDTH_PX, WIDTH_PX * HEIGHT_PX, len(FILE)), ""),
    ],
)
@pytest.mark.asyncio
async def test_an_image_may_be_as_large_as_the_limits_and_no_larger(limits: ImageLimits, reason: str) -> None:
    async with running_rig(quick_settings(image_limits=limits)) as rig:
        stream = await rig.run([make_item(1, encoded(FILE))])
    assert stream.outcomes[1].reason == reason


@pytest.mark.parametrize(
    "limits",
    [
        {"max_unfinished_pixels": 2 * WIDTH_PX * HEIGHT_PX},
        # An item counts with its pixels and with its features.
        {"max_unfinished_bytes": 2 * WIDTH_PX * HEIGHT_PX * 3},
    ],
)
@pytest.mark.asyncio
async def test_a_stream_that_holds_what_it_may_is_read_no_further(
    limits: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate(set(range(1, ITEM_COUNT + 1)))
    monkeypatch.setattr(host, "decode_planned", gate)
    image = raw_pixels(bytes(WIDTH_PX * HEIGHT_PX * 3), WIDTH_PX, HEIGHT_PX)
    async with running_rig(quick_settings(**limits)) as rig:
        stream = await rig.open()
        sent = 0
        # The items that were let in hold their place while the gate is shut: plan after plan comes until then. What an
        # item takes is known with its plan, so the next one waits for that.
        with pytest.raises(TimeoutError):
            while sent < ITEM_COUNT:
                sent += 1
                await stream.send(make_item(sent, image))
                reading = asyncio.ensure_future(stream.read())
                await asyncio.wait_for(asyncio.shield(reading), timeout=1.0)
        assert 1 < sent < ITEM_COUNT
        gate.open()
        await stream.send(*(make_item(item_id, image) for item_id in range(sent + 1, ITEM_COUNT + 1)))
        await reading
        assert await stream.finish() == "OK"
    assert len(stream.ended_ids) == ITEM_COUNT


@pytest.mark.asyncio
async def test_chunks_have_the_size_of_the_setting_where_the_client_asks_for_none() -> None:
    async with running_rig(quick_settings(chunk_bytes=5000)) as rig:
        stream = await rig.run([make_item(1, encoded(FILE))], make_config())
    sizes = [len(event.features.chunk.data) for event in stream.events if event.WhichOneof("payload") == "features"]
    assert set(sizes[:-1]) == {5000}
    assert sum(sizes) == len(stream.outcomes[1].data)


@pytest.mark.parametrize("idle_bytes", [0, 64 << 20])
@pytest.mark.asyncio
async def test_memory_is_kept_between_images_up_to_the_setting(idle_bytes: int) -> None:
    async with running_rig(quick_settings(idle_buffer_bytes=idle_bytes)) as rig:
        await rig.run([make_item(1, encoded(FILE))])
        assert (rig.server.engines.buffers.idle_bytes > 0) is (idle_bytes > 0)
        assert rig.server.engines.buffers.idle_bytes <= idle_bytes


@pytest.mark.parametrize(
    ("shared_bytes", "missing"),
    [(0, "sharing a device's memory is switched off"), (1, "there is no device but the interpreter")],
)
@pytest.mark.asyncio
async def test_a_device_shares_no_memory_where_it_may_share_none(shared_bytes: int, missing: str) -> None:
    engines = Engines(quick_settings(cuda=DeviceMode.INTERPRETER, max_shared_device_bytes=shared_bytes))
    assert missing in engines.device_memory_missing
    await engines.close()


@pytest.mark.parametrize(("wait_us", "batch_sizes"), [(0, [1, 1]), (60_000_000, [2])])
@pytest.mark.asyncio
async def test_a_free_device_waits_for_an_image_on_its_way(
    wait_us: int, batch_sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    from monopath_server.transforms.cuda.transform import CudaTransform

    found: list[int] = []

    def recording(_transform: CudaTransform, items: Any) -> Any:
        found.append(len(items))
        return (None,) * len(items)

    monkeypatch.setattr(CudaTransform, "run_batch", recording)
    devices = Devices(quick_settings(cuda=DeviceMode.INTERPRETER, batch_wait_us=wait_us))
    _, batcher = await devices.batcher(PRESETS["kimi-k2.5"], ElementType.UINT8, "")
    with batcher.coming():
        first = asyncio.create_task(transform(batcher, 1))
        if not wait_us:
            await first
        second = asyncio.create_task(transform(batcher, 1))
        await asyncio.sleep(0)  # lets both tasks hand their image over, while a third is still on its way
    await asyncio.gather(first, second)
    assert found == batch_sizes
    devices.close()
