"""The custom options against the last release: `buf breaking` does not look at them, clients depend on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2

from monopath.v1 import options_pb2, path_pb2
from tests.contract.buf import run_buf
from tests.support.options import (
    BASELINE,
    ContractOptions,
    baseline_files,
    current_files,
    declared_options,
    option_breaks,
)

_PACKAGE = "monopath.v1"


def _message(files: descriptor_pb2.FileDescriptorSet, name: str) -> descriptor_pb2.DescriptorProto:
    return next(message for file in files.file for message in file.message_type if message.name == name)


def _field_rules(files: descriptor_pb2.FileDescriptorSet, message: str, field: str) -> options_pb2.FieldRules:
    found = next(candidate for candidate in _message(files, message).field if candidate.name == field)
    return found.options.Extensions[options_pb2.rules]


def _reason_traits(files: descriptor_pb2.FileDescriptorSet, name: str) -> options_pb2.ReasonTraits:
    values = (value for file in files.file for enum in file.enum_type for value in enum.value)
    return next(value for value in values if value.name == name).options.Extensions[options_pb2.traits]


def _doctored(change: Callable[[descriptor_pb2.FileDescriptorSet], object]) -> ContractOptions:
    files = baseline_files()
    change(files)
    return declared_options(files)


def test_no_option_breaks_against_the_last_release() -> None:
    assert option_breaks(declared_options(baseline_files()), declared_options(current_files())) == []


def test_the_baseline_holds_the_options_that_are_compared() -> None:
    baseline = declared_options(baseline_files())
    assert baseline.rules[f"{_PACKAGE}.InlineTransport.chunk_bytes"].maximum == 1 << 20
    assert baseline.traits[f"{_PACKAGE}.STREAM_ERROR_REASON_DRAINING"].retryable
    assert baseline.message_paths[f"{_PACKAGE}.LocalItem"] == path_pb2.PREPROCESSING_PATH_LOCAL
    assert baseline.method_paths[f"{_PACKAGE}.PreprocessingService.StreamDeferredCuda"] == (
        path_pb2.PREPROCESSING_PATH_DEFERRED_CUDA
    )


def _tighten_maximum(files: descriptor_pb2.FileDescriptorSet) -> None:
    _field_rules(files, "KimiConfig", "patch_size").maximum = 63


def _tighten_minimum(files: descriptor_pb2.FileDescriptorSet) -> None:
    _field_rules(files, "KimiConfig", "patch_size").minimum = 2


def _tighten_length(files: descriptor_pb2.FileDescriptorSet) -> None:
    _field_rules(files, "DeferredCpuItem", "label").max_length = 1023


def _add_least_length(files: descriptor_pb2.FileDescriptorSet) -> None:
    _field_rules(files, "DeferredCpuItem", "label").min_length = 1


def _add_bound(files: descriptor_pb2.FileDescriptorSet) -> None:
    _field_rules(files, "ChannelValues", "red").greater_than = 0


def _demand_field(files: descriptor_pb2.FileDescriptorSet) -> None:
    _field_rules(files, "KimiConfig", "fixed_output_tokens").required = True


def _add_required_field(files: descriptor_pb2.FileDescriptorSet) -> None:
    added = _message(files, "KimiConfig").field.add(name="novel", number=99)
    added.options.Extensions[options_pb2.rules].required = True


def _change_code(files: descriptor_pb2.FileDescriptorSet) -> None:
    traits = _reason_traits(files, "ITEM_ERROR_REASON_IMAGE_EMPTY")
    traits.code = options_pb2.GRPC_CODE_OUT_OF_RANGE


def _stop_retries(files: descriptor_pb2.FileDescriptorSet) -> None:
    _reason_traits(files, "STREAM_ERROR_REASON_OVERLOADED").retryable = False


def _drop_traits(files: descriptor_pb2.FileDescriptorSet) -> None:
    values = (value for file in files.file for enum in file.enum_type for value in enum.value)
    reason = next(value for value in values if value.name == "STREAM_ERROR_REASON_OVERLOADED")
    reason.options.ClearExtension(options_pb2.traits)


def _move_message(files: descriptor_pb2.FileDescriptorSet) -> None:
    options = _message(files, "LocalItem").options
    options.Extensions[options_pb2.path] = path_pb2.PREPROCESSING_PATH_DEFERRED_CPU


def _move_method(files: descriptor_pb2.FileDescriptorSet) -> None:
    methods = (method for file in files.file for service in file.service for method in service.method)
    options = next(method for method in methods if method.name == "StreamLocal").options
    options.Extensions[options_pb2.method_path] = path_pb2.PREPROCESSING_PATH_DEFERRED_CPU


@pytest.mark.parametrize(
    ("change", "element"),
    [
        (_tighten_maximum, "KimiConfig.patch_size: Expected maximum"),
        (_tighten_minimum, "KimiConfig.patch_size: Expected minimum"),
        (_tighten_length, "DeferredCpuItem.label: Expected max_length"),
        (_add_least_length, "DeferredCpuItem.label: Expected min_length"),
        (_add_bound, "ChannelValues.red: Expected greater_than"),
        (_demand_field, "KimiConfig.fixed_output_tokens: Expected the field to stay optional"),
        (_add_required_field, "KimiConfig.novel: Expected a new field of an old message to be optional"),
        (_change_code, "ITEM_ERROR_REASON_IMAGE_EMPTY: Expected code 3"),
        (_stop_retries, "STREAM_ERROR_REASON_OVERLOADED: Expected code 8 and retryable True"),
        (_drop_traits, "STREAM_ERROR_REASON_OVERLOADED: Expected the reason to keep its traits"),
        (_move_message, "LocalItem: Expected the path LOCAL"),
        (_move_method, "PreprocessingService.StreamLocal: Expected the path LOCAL"),
    ],
)
def test_a_tightened_limit_a_changed_reason_and_a_moved_path_are_found(
    change: Callable[[descriptor_pb2.FileDescriptorSet], object], element: str
) -> None:
    (found,) = option_breaks(declared_options(baseline_files()), _doctored(change))
    assert found.startswith(f"{_PACKAGE}.{element}")


def _loosen(files: descriptor_pb2.FileDescriptorSet) -> None:
    rules = _field_rules(files, "KimiConfig", "patch_size")
    rules.required = False
    rules.maximum = 128
    rules.ClearField("minimum")
    added = _message(files, "KimiConfig").field.add(name="novel", number=99)
    added.options.Extensions[options_pb2.rules].maximum = 9
    files.file[0].message_type.add(name="NovelMessage").field.add(name="novel", number=1)


def test_loosened_limits_and_new_elements_are_no_break() -> None:
    assert option_breaks(declared_options(baseline_files()), _doctored(_loosen)) == []


def test_buf_breaking_does_not_see_options_and_so_this_file_is_needed(tmp_path: Path) -> None:
    files = baseline_files()
    _tighten_maximum(files)
    doctored = tmp_path / "doctored.binpb"
    doctored.write_bytes(files.SerializeToString())
    assert run_buf("breaking", str(doctored), "--against", str(BASELINE)).returncode == 0
