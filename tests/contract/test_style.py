"""Rules of the contract's style that `buf lint` does not know."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from tests.support.options import PACKAGE, SERVICE, current_files, declared_options

_FILES = current_files()
_OPTIONS = declared_options(_FILES)
_STREAM_MESSAGES = [
    message
    for method in SERVICE.methods
    if method.client_streaming or method.server_streaming
    for message in (method.input_type, method.output_type)
]
_SIXTY_FOUR_BITS = {
    FieldDescriptorProto.TYPE_INT64,
    FieldDescriptorProto.TYPE_UINT64,
    FieldDescriptorProto.TYPE_SINT64,
    FieldDescriptorProto.TYPE_FIXED64,
    FieldDescriptorProto.TYPE_SFIXED64,
}
_SIXTY_FOUR_BIT_FIELDS = {
    "CudaIpcHandle.generation",
    "CudaIpcHandle.length_bytes",
    "CudaIpcHandle.offset_bytes",
    "Device.memory_bytes",
    "EncoderRankLoad.patch_count",
    "SharedMemoryHandle.generation",
    "SharedMemoryHandle.length_bytes",
    "SharedMemoryHandle.offset_bytes",
    "StreamLimits.max_unfinished_bytes",
    "Summary.received_bytes",
    "Summary.sent_bytes",
    "TensorSpec.shape",
}
"""A 64-bit integer is no `number` in JavaScript: each one here outgrows 32 bits, a new one must be named."""


def _messages() -> Iterator[tuple[FileDescriptorProto, DescriptorProto]]:
    for file in _FILES.file:
        for message in file.message_type:
            yield file, message


def _fields() -> Iterator[tuple[str, DescriptorProto, FieldDescriptorProto]]:
    for _, message in _messages():
        for field in message.field:
            yield f"{message.name}.{field.name}", message, field


def _names(*types: FieldDescriptorProto.Type.ValueType) -> set[str]:
    return {name for name, _, field in _fields() if field.type in types}


def test_there_are_fields_to_check() -> None:
    assert len(list(_fields())) > 200
    assert len(_STREAM_MESSAGES) == 6


@pytest.mark.parametrize("message", _STREAM_MESSAGES, ids=lambda message: message.name)
def test_a_stream_message_is_one_oneof_and_nothing_else(message: Descriptor) -> None:
    assert [oneof.name for oneof in message.oneofs] == ["payload"]
    assert {field.name for field in message.fields} == {field.name for field in message.oneofs[0].fields}


def test_every_file_is_proto3_of_the_package_in_the_directory_of_its_name() -> None:
    assert {(file.syntax, file.package) for file in _FILES.file} == {("proto3", PACKAGE)}
    assert all(re.fullmatch(r"monopath/v1/[a-z_]+\.proto", file.name) for file in _FILES.file)


def test_the_contract_takes_no_type_from_outside_but_duration() -> None:
    outside = {field.type_name for _, _, field in _fields() if field.type_name}
    assert {name for name in outside if not name.startswith(f".{PACKAGE}.")} == {".google.protobuf.Duration"}


def test_there_is_no_float_no_repeated_double_and_no_map() -> None:
    assert _names(FieldDescriptorProto.TYPE_FLOAT) == set()
    doubles = [field for _, _, field in _fields() if field.type == FieldDescriptorProto.TYPE_DOUBLE]
    assert doubles
    assert all(field.label != FieldDescriptorProto.LABEL_REPEATED for field in doubles)
    assert not any(nested.options.map_entry for _, message in _messages() for nested in message.nested_type)


def test_integers_have_64_bits_only_where_they_need_them() -> None:
    assert _names(*_SIXTY_FOUR_BITS) == _SIXTY_FOUR_BIT_FIELDS


def test_numbers_that_must_be_present_can_be_told_from_zero() -> None:
    required = {name for name, rules in _OPTIONS.rules.items() if rules.required}
    assert required
    for name, _, field in _fields():
        text_or_message = field.type in (
            FieldDescriptorProto.TYPE_STRING,
            FieldDescriptorProto.TYPE_BYTES,
            FieldDescriptorProto.TYPE_MESSAGE,
        )
        if f"{PACKAGE}.{name}" in required and not text_or_message:
            assert field.proto3_optional, name


def test_limits_are_of_the_kind_of_their_field() -> None:
    lengths = (FieldDescriptorProto.TYPE_STRING, FieldDescriptorProto.TYPE_BYTES)
    for name, _, field in _fields():
        rules = _OPTIONS.rules[f"{PACKAGE}.{name}"]
        has_length = field.type in lengths or field.label == FieldDescriptorProto.LABEL_REPEATED
        if rules.HasField("min_length") or rules.HasField("max_length"):
            assert has_length, name
        if rules.HasField("minimum") or rules.HasField("maximum") or rules.HasField("greater_than"):
            # On a message they hold for every number in it.
            assert not has_length, name


def test_bytes_that_could_travel_another_way_stand_in_a_oneof_location() -> None:
    for name, message, field in _fields():
        if message.name == "CudaIpcOffer":
            continue  # its probe travels nowhere: that it lies in a GPU is what it proves
        handle = field.type_name.endswith("Handle") or field.type_name.endswith("FeatureChunk")
        image_bytes = field.type == FieldDescriptorProto.TYPE_BYTES and field.name == "data"
        if handle or (image_bytes and message.name not in ("FeatureChunk", "Tensor")):
            assert field.HasField("oneof_index"), name
            assert message.oneof_decl[field.oneof_index].name == "location", name


def test_features_in_a_response_are_at_most_one_mebibyte() -> None:
    assert _OPTIONS.rules[f"{PACKAGE}.InlineTransport.chunk_bytes"].maximum == 1 << 20


def test_item_ids_are_32_bit_and_signed_so_that_a_wrong_one_can_be_named() -> None:
    kinds = {name: field.type for name, _, field in _fields() if field.name == "id"}
    assert kinds.pop("Device.id") == FieldDescriptorProto.TYPE_STRING
    assert set(kinds.values()) == {FieldDescriptorProto.TYPE_INT32}


def test_times_are_durations_and_units_stand_in_names() -> None:
    ending = re.compile(r"_(ms|us|ns|s|sec|secs|seconds|millis|kb|mb|kib|mib)$")
    assert [name for name, _, _ in _fields() if ending.search(name)] == []
    # A plain number that is a size says of what.
    sizes = [name for name, _, _ in _fields() if re.search(r"\.(width|height|length|size|offset)$", name)]
    assert {name for name in sizes if not name.startswith("SizedImage.")} == set()


def test_there_is_no_address_for_the_server_to_fetch() -> None:
    assert [name for name, _, _ in _fields() if re.search(r"(^|[._])(url|uri|href|link)s?($|_)", name)] == []
