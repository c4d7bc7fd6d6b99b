"""The public names, frozen; the two clients, mirrors of each other; and what importing them costs."""

from __future__ import annotations

import enum
import inspect
import os
import subprocess
import sys
from typing import Any

import pytest

import monopath
from monopath import AsyncClient, AsyncFleet, AsyncStream, Client, Fleet, Stream
from monopath.v1 import config_pb2, error_pb2, event_pb2, image_pb2, path_pb2, tensor_pb2

NAMES = [
    "Alpha",
    "AnyPath",
    "AsyncClient",
    "AsyncFleet",
    "AsyncStream",
    "Availability",
    "CacheOutcome",
    "CallError",
    "CallMetadata",
    "Capabilities",
    "Client",
    "Config",
    "ConnectionFailed",
    "CredentialsRefused",
    "Crop",
    "DataType",
    "DeadlineExceeded",
    "DeferredCpu",
    "DeferredCuda",
    "Device",
    "EncoderRankLoad",
    "Event",
    "FeatureArray",
    "FeatureBatch",
    "FieldViolation",
    "FixedSizeConfig",
    "Fleet",
    "GridThw",
    "Image",
    "ImageInput",
    "ImagePlan",
    "InputT",
    "InternVlConfig",
    "Item",
    "ItemAttemptsExhausted",
    "ItemError",
    "ItemErrorReason",
    "ItemTimings",
    "GlmNextConfig",
    "GlmVlConfig",
    "KimiConfig",
    "KimiVlConfig",
    "QwenVlConfig",
    "Local",
    "LocalFeatures",
    "MonopathError",
    "Orientation",
    "Padding",
    "PathT",
    "PixelFormat",
    "PlanArguments",
    "PlanEvent",
    "PlanReply",
    "PlannedImage",
    "Preset",
    "PreprocessingPath",
    "ProcessorArguments",
    "ProcessorConfig",
    "ProtocolError",
    "Provenance",
    "RawImage",
    "Ready",
    "RequestRefused",
    "ResampleKernel",
    "Result",
    "ResultOrder",
    "Resume",
    "Size",
    "SizeInput",
    "Stream",
    "StreamArguments",
    "StreamBroken",
    "StreamClosed",
    "StreamErrorReason",
    "StreamLimits",
    "StreamMoved",
    "StreamRefused",
    "Summary",
    "TileGrid",
    "Tls",
    "Transport",
    "concatenate",
]


def test_the_public_names_are_frozen() -> None:
    assert sorted(monopath.__all__) == sorted(NAMES)
    assert all(hasattr(monopath, name) for name in NAMES)


def test_every_public_class_and_function_has_a_docstring() -> None:
    for name in NAMES:
        thing = getattr(monopath, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert inspect.getdoc(thing), name


@pytest.mark.parametrize(("sync", "asynchronous"), [(Client, AsyncClient), (Stream, AsyncStream), (Fleet, AsyncFleet)])
def test_the_two_clients_mirror_each_other(sync: type, asynchronous: type) -> None:
    def members(kind: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(member).parameters) if callable(member) else []
            for name, member in vars(kind).items()
            if not name.startswith("_")
        }

    assert members(sync) == members(asynchronous)


@pytest.mark.parametrize(
    ("words", "numbers", "prefix"),
    [
        (monopath.CacheOutcome, event_pb2.CacheOutcome, "CACHE_OUTCOME_"),
        (monopath.DataType, tensor_pb2.DataType, "DATA_TYPE_"),
        (monopath.ItemErrorReason, error_pb2.ItemErrorReason, "ITEM_ERROR_REASON_"),
        (monopath.Orientation, config_pb2.OrientationPolicy, "ORIENTATION_POLICY_"),
        (monopath.PixelFormat, image_pb2.PixelFormat, "PIXEL_FORMAT_"),
        (monopath.PreprocessingPath, path_pb2.PreprocessingPath, "PREPROCESSING_PATH_"),
        (monopath.ResampleKernel, config_pb2.ResampleKernel, "RESAMPLE_KERNEL_"),
        (monopath.ResultOrder, config_pb2.ResultOrder, "RESULT_ORDER_"),
        (monopath.StreamErrorReason, error_pb2.StreamErrorReason, "STREAM_ERROR_REASON_"),
    ],
)
def test_the_words_are_the_contracts_enums(words: type[enum.StrEnum], numbers: Any, prefix: str) -> None:
    names = {name.removeprefix(prefix) for name, _number in numbers.items()} - {"UNSPECIFIED"}
    assert {word.name for word in words} == names


def test_the_transports_are_the_contracts() -> None:
    arms = config_pb2.OutputConfig.DESCRIPTOR.oneofs_by_name["transport"].fields
    assert {word.value for word in monopath.Transport} == {arm.name for arm in arms}


def test_importing_the_client_imports_no_torch_no_pillow_and_no_server() -> None:
    program = (
        "import sys, monopath\n"
        "heavy = {'torch', 'PIL', 'numba', 'triton', 'scipy', 'monopath_server', 'grpc_status',\n"
        "         'monopath.cuda_memory', 'monopath.cuda_driver'} & set(sys.modules)\n"
        "sys.exit(f'Expected none of these, got {heavy}' if heavy else 0)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
