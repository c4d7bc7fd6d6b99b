"""A newer contract against these stubs, both ways: unknown fields, enum numbers and arms pass through unharmed."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from monopath.v1 import deferred_cpu_pb2, error_pb2, event_pb2, image_pb2, service_pb2
from tests.support.options import PACKAGE, baseline_files

_FIELD = descriptor_pb2.FieldDescriptorProto


def _newer_contract() -> descriptor_pool.DescriptorPool:
    """The last release with a field, an enum value and an arm more on the way in and on the way out."""
    files = baseline_files()
    messages = {message.name: message for file in files.file for message in file.message_type}
    enums = {enum.name: enum for file in files.file for enum in file.enum_type}
    for name in ("DeferredCpuItem", "Ready"):
        messages[name].field.add(name="novel", number=99, type=_FIELD.TYPE_STRING, label=_FIELD.LABEL_OPTIONAL)
    for name, number in (("StreamDeferredCpuRequest", 29), ("StreamDeferredCpuResponse", 9)):
        messages[name].field.add(
            name="novel",
            number=number,
            type=_FIELD.TYPE_MESSAGE,
            type_name=f".{PACKAGE}.Release",
            label=_FIELD.LABEL_OPTIONAL,
            oneof_index=0,
        )
    enums["PixelFormat"].value.add(name="PIXEL_FORMAT_NOVEL", number=99)
    enums["ItemErrorReason"].value.add(name="ITEM_ERROR_REASON_NOVEL", number=99)
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.Add(file)
    return pool


@pytest.fixture(scope="module")
def newer() -> descriptor_pool.DescriptorPool:
    return _newer_contract()


def _newer_message(pool: descriptor_pool.DescriptorPool, name: str) -> Any:
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))()


def test_an_unknown_field_of_a_request_survives(newer: descriptor_pool.DescriptorPool) -> None:
    sent = _newer_message(newer, "StreamDeferredCpuRequest")
    sent.item.id = 7
    sent.item.novel = "kept"
    read = service_pb2.StreamDeferredCpuRequest.FromString(sent.SerializeToString())
    assert read.item == deferred_cpu_pb2.DeferredCpuItem.FromString(sent.item.SerializeToString())
    assert read.item.id == 7
    assert type(sent).FromString(read.SerializeToString()) == sent


def test_an_unknown_enum_number_of_a_request_keeps_its_number(newer: descriptor_pool.DescriptorPool) -> None:
    sent = _newer_message(newer, "RawPixels")
    sent.format = 99
    read = image_pb2.RawPixels.FromString(sent.SerializeToString())
    assert read.format == 99
    assert type(sent).FromString(read.SerializeToString()) == sent


def test_an_unknown_arm_of_a_request_reads_as_no_known_payload(newer: descriptor_pool.DescriptorPool) -> None:
    sent = _newer_message(newer, "StreamDeferredCpuRequest")
    sent.novel.id = 7
    read = service_pb2.StreamDeferredCpuRequest.FromString(sent.SerializeToString())
    assert read.WhichOneof("payload") is None
    assert type(sent).FromString(read.SerializeToString()) == sent


def test_an_unknown_field_of_a_response_survives(newer: descriptor_pool.DescriptorPool) -> None:
    sent = _newer_message(newer, "StreamDeferredCpuResponse")
    sent.ready.device = "cpu"
    sent.ready.novel = "kept"
    read = service_pb2.StreamDeferredCpuResponse.FromString(sent.SerializeToString())
    assert read.ready.device == "cpu"
    assert read.ready == event_pb2.Ready.FromString(sent.ready.SerializeToString())
    assert type(sent).FromString(read.SerializeToString()) == sent


def test_an_unknown_error_reason_keeps_its_number(newer: descriptor_pool.DescriptorPool) -> None:
    sent = _newer_message(newer, "ItemError")
    sent.id = 7
    sent.reason = 99
    read = error_pb2.ItemError.FromString(sent.SerializeToString())
    assert (read.id, read.reason) == (7, 99)
    assert type(sent).FromString(read.SerializeToString()) == sent


def test_an_unknown_arm_of_a_response_reads_as_no_known_payload(newer: descriptor_pool.DescriptorPool) -> None:
    sent = _newer_message(newer, "StreamDeferredCpuResponse")
    sent.novel.id = 7
    read = service_pb2.StreamDeferredCpuResponse.FromString(sent.SerializeToString())
    assert read.WhichOneof("payload") is None
    assert type(sent).FromString(read.SerializeToString()) == sent


@pytest.mark.parametrize("name", ["StreamDeferredCpuRequest", "StreamDeferredCpuResponse"])
def test_a_newer_reader_takes_an_older_message_as_it_is(newer: descriptor_pool.DescriptorPool, name: str) -> None:
    older: Any = getattr(service_pb2, name)()
    payload = older.item if name.endswith("Request") else older.error
    payload.id = 7
    payload.label = "as it was"
    read = _newer_message(newer, name)
    read.ParseFromString(older.SerializeToString())
    assert read.WhichOneof("payload") == older.WhichOneof("payload")
    assert getattr(read, read.WhichOneof("payload")).label == "as it was"
    assert read.SerializeToString() == older.SerializeToString()
