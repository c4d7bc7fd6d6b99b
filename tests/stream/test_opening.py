"""How a stream opens, and how an opening is refused."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from monopath.v1 import config_pb2, tensor_pb2
from tests.support.stream import RawStream, encoded, make_config, make_item, photo, png, preset, running_rig

K25_JSON: dict[str, Any] = {
    "patch_size": 14,
    "merge_kernel_size": 2,
    "in_patch_limit": 16384,
    "patch_limit_on_one_side": 512,
    "fixed_output_tokens": None,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}


def checkpoint(document: object) -> config_pb2.ProcessorConfig:
    text = document if isinstance(document, str) else json.dumps(document)
    return config_pb2.ProcessorConfig(checkpoint=config_pb2.CheckpointConfig(preprocessor_config_json=text))


@pytest.mark.asyncio
async def test_ready_echoes_the_resolved_config_its_digest_and_the_limits() -> None:
    async with running_rig() as rig:
        by_preset = await rig.open()
        by_json = await rig.open(make_config(processor=checkpoint({"media_proc_cfg": K25_JSON})))
        assert by_preset.ready is not None
        assert by_json.ready is not None
        assert by_preset.ready.processor.kimi.in_patch_limit == 16384
        assert by_preset.ready.processor == by_json.ready.processor
        assert by_preset.ready.config_sha256 == by_json.ready.config_sha256
        assert len(by_preset.ready.config_sha256) == 32
        assert by_preset.ready.limits.max_unfinished_items > 0
        assert by_preset.ready.device == "cpu"
        # The echoed config opens a stream of the same digest: nothing was lost on the way.
        again = await rig.open(make_config(processor=by_preset.ready.processor))
        assert again.ready is not None
        assert again.ready.config_sha256 == by_preset.ready.config_sha256
        for stream in (by_preset, by_json, again):
            assert await stream.finish() == "OK"


@pytest.mark.asyncio
async def test_ready_of_a_uint8_stream_carries_the_table_that_finishes_its_features() -> None:
    image = encoded(png(photo(60, 44)))
    async with running_rig() as rig:
        plain = await rig.run([make_item(1, image)])
        raw = await rig.run([make_item(1, image)], make_config(data_type=tensor_pb2.DATA_TYPE_UINT8))
        assert raw.ready is not None
        assert plain.ready is not None
        assert not plain.ready.HasField("normalize_table")
        assert list(raw.ready.normalize_table.spec.shape) == [3, 256]
        table = np.frombuffer(raw.ready.normalize_table.data, "<f4").reshape(3, 256)
        pixels = np.frombuffer(raw.outcomes[1].data, np.uint8).reshape(-1, 3, 14, 14)
        finished = np.stack([table[channel][pixels[:, channel]] for channel in range(3)], axis=1)
        assert finished.tobytes() == bytes(plain.outcomes[1].data)


@pytest.mark.asyncio
async def test_every_missing_key_of_a_json_config_is_named_at_the_opening() -> None:
    document = {key: value for key, value in K25_JSON.items() if key not in ("patch_size", "image_std")}
    async with running_rig() as rig:
        stream = RawStream(rig.channel, "deferred_cpu")
        await stream.send(make_config(processor=checkpoint({"media_proc_cfg": document})))
        failure = await stream.read_until("failure")
        assert await stream.finish() == "INVALID_ARGUMENT"
    assert stream.reason == "CONFIG_INVALID"
    assert sorted(stream.violated_fields) == ["media_proc_cfg.image_std", "media_proc_cfg.patch_size"]
    assert [violation.field for violation in failure.violations] == stream.violated_fields


@pytest.mark.asyncio
async def test_both_halves_of_a_wrong_config_are_named_at_once() -> None:
    config = make_config(processor=config_pb2.ProcessorConfig(kimi=config_pb2.KimiConfig(patch_size=14)))
    config.config.output.data_type = 99
    async with running_rig() as rig:
        stream = RawStream(rig.channel, "deferred_cpu")
        await stream.send(config)
        assert await stream.finish() == "INVALID_ARGUMENT"
    kimi = "config.processor.kimi"
    assert sorted(stream.violated_fields) == [
        "config.output.data_type",
        f"{kimi}.image_mean",
        f"{kimi}.image_std",
        f"{kimi}.in_patch_limit",
        f"{kimi}.merge_kernel_size",
        f"{kimi}.patch_limit_on_one_side",
    ]


@pytest.mark.parametrize("number", [0, 99])
@pytest.mark.parametrize(
    "path",
    [
        "config.output.data_type",
        "config.output.order",
        "config.processor.kimi.resample_kernel",
        "config.processor.kimi.orientation_policy",
        "config.processor.kimi.transparent_bg_fill_stage",
        "config.processor.kimi.transparent_bg_config.pattern",
    ],
)
@pytest.mark.asyncio
async def test_an_unset_or_unknown_enum_is_refused_by_its_field(path: str, number: int) -> None:
    async with running_rig() as rig:
        good = await rig.open()
        assert await good.finish() == "OK"
        assert good.ready is not None
        config = make_config(processor=good.ready.processor)
        *parents, name = path.split(".")
        message = config
        for parent in parents:
            message = getattr(message, parent)
        setattr(message, name, number)
        stream = RawStream(rig.channel, "deferred_cpu")
        await stream.send(config)
        assert await stream.finish() == "INVALID_ARGUMENT"
    assert stream.violated_fields == [path]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("patch_size", 0),
        ("patch_size", 4_000_000_000),
        ("merge_kernel_size", 0),
        ("in_patch_limit", 0),
        ("patch_limit_on_one_side", 0),
        ("fixed_output_tokens", 0),
    ],
)
@pytest.mark.asyncio
async def test_zero_is_not_absent(field: str, value: int) -> None:
    async with running_rig() as rig:
        good = await rig.open()
        assert await good.finish() == "OK"
        assert good.ready is not None
        config = make_config(processor=good.ready.processor)
        setattr(config.config.processor.kimi, field, value)
        stream = RawStream(rig.channel, "deferred_cpu")
        await stream.send(config)
        assert await stream.finish() == "INVALID_ARGUMENT"
    assert stream.violated_fields == [f"config.processor.kimi.{field}"]


@pytest.mark.asyncio
async def test_the_last_arm_of_a_oneof_counts_as_protobuf_says() -> None:
    both = config_pb2.ProcessorConfig(kimi=config_pb2.KimiConfig()).SerializeToString() + preset().SerializeToString()
    async with running_rig() as rig:
        stream = await rig.open(make_config(processor=config_pb2.ProcessorConfig.FromString(both)))
        assert await stream.finish() == "OK"


@pytest.mark.asyncio
async def test_a_stream_without_a_config_is_refused() -> None:
    async with running_rig() as rig:
        silent = RawStream(rig.channel, "deferred_cpu")
        assert await silent.finish(check=None, grammar=False) == "INVALID_ARGUMENT"
        assert silent.reason == "CONFIG_MISSING"
        hasty = RawStream(rig.channel, "deferred_cpu")
        await hasty.send(make_item(1, encoded(b"x")))
        assert await hasty.finish(grammar=False) == "INVALID_ARGUMENT"
        assert hasty.reason == "CONFIG_MISSING"


@pytest.mark.asyncio
async def test_a_second_config_ends_the_stream_after_its_accepted_items() -> None:
    async with running_rig() as rig:
        stream = await rig.open()
        await stream.send(make_item(1, encoded(png(photo(60, 44)))), make_config())
        assert await stream.finish(grammar=False) == "INVALID_ARGUMENT"
        assert stream.reason == "CONFIG_REPEATED"
        assert stream.outcomes[1].completion is not None


@pytest.mark.parametrize("transport", ["shared_memory", "cuda_ipc"])
@pytest.mark.asyncio
async def test_a_transport_that_the_server_lacks_is_refused_by_name(transport: str) -> None:
    config = make_config()
    getattr(config.config.output, transport).SetInParent()
    async with running_rig() as rig:
        stream = RawStream(rig.channel, "deferred_cpu")
        await stream.send(config)
        assert await stream.finish() == "FAILED_PRECONDITION"
        assert stream.reason == "TRANSPORT_UNAVAILABLE"
        assert stream.failure is not None
        assert transport in stream.failure.message


@pytest.mark.asyncio
async def test_the_cuda_path_without_a_device_is_refused_and_never_runs_on_the_cpu() -> None:
    async with running_rig() as rig:
        stream = RawStream(rig.channel, "deferred_cuda")
        await stream.send(make_config("deferred_cuda"))
        assert await stream.finish() == "FAILED_PRECONDITION"
        assert stream.reason == "DEVICE_UNAVAILABLE"
        assert stream.ready is None


@pytest.mark.asyncio
async def test_an_unknown_preset_is_refused_with_the_names_that_there_are() -> None:
    async with running_rig() as rig:
        stream = RawStream(rig.channel, "deferred_cpu")
        await stream.send(make_config(processor=preset("kimi-k9")))
        assert await stream.finish() == "INVALID_ARGUMENT"
        assert stream.violated_fields == ["config.processor.preset.name"]
        assert stream.failure is not None
        assert "kimi-k2.5" in stream.failure.violations[0].description


@pytest.mark.asyncio
async def test_an_unknown_key_of_a_json_config_only_warns() -> None:
    async with running_rig() as rig:
        stream = await rig.open(make_config(processor=checkpoint({"media_proc_cfg": {**K25_JSON, "colour": "blue"}})))
        assert stream.ready is not None
        assert [warning.field for warning in stream.ready.warnings] == ["media_proc_cfg.colour"]
        assert await stream.finish() == "OK"
