"""The features and plans that vectors expect are computed again, by code that shares nothing with the server's."""

from __future__ import annotations

import base64
import hashlib
from collections import defaultdict
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from google.protobuf import json_format
from numpy.typing import NDArray

from monopath.cli.verify_presets import checkpoint_of
from monopath.v1 import config_pb2, tensor_pb2
from monopath_server.reference import (
    AnyReference,
    RawImage,
    ReferenceConfig,
    reference_config,
    reference_features,
    reference_plan,
)
from tests.contract.vector_cases import Vector, load_vectors

_VECTORS = [vector for vector in load_vectors() if vector.expected_features and not vector.newer]
_DEFERRED = [vector for vector in _VECTORS if vector.method != "StreamLocal"]
_LOCAL = [vector for vector in _VECTORS if vector.method == "StreamLocal"]


def _config(vector: Vector) -> tuple[AnyReference, str]:
    # The resolved config of presets and JSON texts stands in what is expected of `ready`.
    opening = vector.documents()[0]["config"]
    sources = (opening["processor"], vector.expected_events[0]["ready"].get("processor", {}))
    source = next(source for source in sources if source.keys().isdisjoint(("preset", "checkpoint")) and source)
    output = json_format.ParseDict(opening["output"], config_pb2.OutputConfig())
    return reference_of(source), tensor_pb2.DataType.Name(output.data_type).removeprefix("DATA_TYPE_")


def reference_of(source: dict[str, Any]) -> AnyReference:
    """The reference of a typed processor in protobuf JSON."""
    processor = json_format.ParseDict(source, config_pb2.ProcessorConfig())
    arm = processor.WhichOneof("source")
    assert arm is not None
    message: Any = getattr(processor, arm)
    if arm == "intern_vl" and not message.HasField("has_thumbnail"):
        message.has_thumbnail = True
    is_pillow = arm in ("kimi", "kimi_vl")
    default = config_pb2.RESAMPLE_KERNEL_PILLOW_13 if is_pillow else config_pb2.RESAMPLE_KERNEL_ATEN_U8
    kernel = config_pb2.ResampleKernel.Name(message.resample_kernel or default).removeprefix("RESAMPLE_KERNEL_")
    return reference_config(checkpoint_of(processor), kernel)


def _image(source: dict[str, Any]) -> bytes | RawImage:
    if "encoded" in source:
        return base64.b64decode(source["encoded"]["data"])
    pixels = source["pixels"]
    return RawImage(
        width_px=pixels["widthPx"],
        height_px=pixels["heightPx"],
        pixel_format=pixels["format"].removeprefix("PIXEL_FORMAT_"),
        data=base64.b64decode(pixels["data"]),
    )


def test_there_are_features_to_recompute() -> None:
    assert len(_DEFERRED) > 15


@pytest.mark.parametrize("vector", _DEFERRED, ids=lambda vector: vector.name)
def test_expected_features_and_plans_are_those_of_the_reference(vector: Vector) -> None:
    config, element_type = _config(vector)
    items = {
        str(document["item"]["id"]): document["item"]
        for document in vector.documents()
        if "id" in document.get("item", {})
    }
    plans = {str(event["plan"]["id"]): event["plan"]["plan"] for event in vector.expected_events if "plan" in event}
    assert plans.keys() == vector.expected_features.keys()
    for item_id, digest in vector.expected_features.items():
        features = reference_features(_image(items[item_id]["image"]), config, element_type)
        values = features.pixel_values
        little_endian = values.astype(values.dtype.newbyteorder("<"))
        assert hashlib.sha256(little_endian.tobytes()).hexdigest() == digest
        plan = plans[item_id]
        assert tuple(plan["gridThw"][axis] for axis in "thw") == features.grid_thw
        assert (plan["tokenCount"], plan["features"]["sizeBytes"]) == (features.token_count, values.nbytes)
        assert [int(length) for length in plan["features"]["shape"]] == list(np.shape(values))
        assert (plan["resizedSize"]["widthPx"], plan["resizedSize"]["heightPx"]) == features.resized_size
        assert (plan["padding"]["rightPx"], plan["padding"]["bottomPx"]) == features.padding
        assert _tile_grid(plan) == features.tile_grid
        assert _crop(plan) == features.crop


_PLANS = [vector for vector in load_vectors() if vector.name in ("plan_tiles", "plan_fixed_size", "plan_cropped_grid")]


def test_there_are_plans_of_other_kinds_to_recompute() -> None:
    assert len(_PLANS) == 3


@pytest.mark.parametrize("vector", _PLANS, ids=lambda vector: vector.name)
def test_plans_of_other_kinds_are_those_of_the_reference(vector: Vector) -> None:
    [request] = vector.documents()
    reference = reference_of(request["processor"])
    sizes = [(image["size"]["widthPx"], image["size"]["heightPx"]) for image in request["images"]]
    for size, image in zip(sizes, vector.expected_events[0]["images"], strict=True):
        plan, expected = image["plan"], reference_plan(reference, *size)
        assert (plan["resizedSize"]["widthPx"], plan["resizedSize"]["heightPx"]) == expected.resized_size
        assert tuple(plan["gridThw"][axis] for axis in "thw") == expected.grid_thw
        assert (_tile_grid(plan), _crop(plan)) == (expected.tile_grid, expected.crop)
        assert plan["tokenCount"] == expected.token_count


def _tile_grid(plan: dict[str, Any]) -> tuple[int, int, int] | None:
    tiles = plan.get("tileGrid")
    return None if tiles is None else (tiles["columns"], tiles["rows"], int(tiles["hasThumbnail"]))


def _crop(plan: dict[str, Any]) -> tuple[int, int, int, int] | None:
    crop = plan.get("crop")
    return None if crop is None else (crop["leftPx"], crop["topPx"], crop["widthPx"], crop["heightPx"])


@pytest.mark.parametrize("vector", _LOCAL, ids=lambda vector: vector.name)
def test_expected_finished_features_are_those_that_were_sent(vector: Vector) -> None:
    """In the element type that was asked for, rounded by another library than the server's."""
    documents = vector.documents()
    asked = documents[0]["config"]["output"]["dataType"]
    announced = {
        str(document["item"]["id"]): document["item"]
        for document in documents
        if {"id", "features", "gridThw"} <= document.get("item", {}).keys()
    }
    sent: dict[str, bytes] = defaultdict(bytes)
    for document in documents:
        part = document.get("itemFeatures", {})
        if "chunk" in part:
            sent[str(part["id"])] += base64.b64decode(part["chunk"].get("data", ""))
    for item_id, digest in vector.expected_features.items():
        features, grid = announced[item_id]["features"], announced[item_id]["gridThw"]
        array = np.frombuffer(sent[item_id], _NUMPY_TYPES[features["dataType"]])
        if features["dataType"] == "DATA_TYPE_UINT8" and asked != "DATA_TYPE_UINT8":
            array = _normalised(array, grid["h"], grid["w"], vector)
        finished = array.astype(np.float32).astype(_NUMPY_TYPES[asked])
        assert hashlib.sha256(finished.tobytes()).hexdigest() == digest


_NUMPY_TYPES: dict[str, Any] = {
    "DATA_TYPE_UINT8": np.uint8,
    "DATA_TYPE_FLOAT32": np.float32,
    "DATA_TYPE_BFLOAT16": ml_dtypes.bfloat16,
    "DATA_TYPE_FLOAT16": np.float16,
}


def _normalised(pixels: NDArray[Any], row_count: int, column_count: int, vector: Vector) -> NDArray[np.float32]:
    """What the reference makes of the image that these patches, uint8 in raster order, were cut from."""
    config, _ = _config(vector)
    assert isinstance(config, ReferenceConfig)
    side_px = config.patch_size
    lines = pixels.reshape(row_count, column_count, 3, side_px, side_px).transpose(0, 3, 1, 4, 2).tobytes()
    image = RawImage(width_px=column_count * side_px, height_px=row_count * side_px, pixel_format="RGB8", data=lines)
    values: NDArray[np.float32] = reference_features(image, config, "FLOAT32").pixel_values.view(np.float32)
    return values
