"""Reads the contract's custom options: paths, field rules and reason traits, from descriptors or from a descriptor set.

`buf breaking` is blind to custom options, so `option_breaks` holds two versions of them against each other.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FileDescriptor, MethodDescriptor, ServiceDescriptor

from monopath.v1 import (
    options_pb2,
    path_pb2,
    service_pb2,
)

__all__ = [
    "BASELINE",
    "PACKAGE",
    "SERVICE",
    "ContractOptions",
    "baseline_files",
    "current_files",
    "declared_options",
    "message_path",
    "method_path",
    "option_breaks",
    "path_name",
    "reason_traits",
]

PACKAGE = "monopath.v1"
BASELINE = Path(__file__).resolve().parents[2] / "protos" / "baseline.binpb"
"""Descriptor set of the last release, as `buf build` wrote it."""
SERVICE: ServiceDescriptor = service_pb2.DESCRIPTOR.services_by_name["PreprocessingService"]


def message_path(message: Descriptor) -> int:
    """The `PreprocessingPath` number a message belongs to; 0 for a message that all paths share."""
    return int(message.GetOptions().Extensions[options_pb2.path])


def method_path(method: MethodDescriptor) -> int:
    """The `PreprocessingPath` number a method is; 0 for one that is no path."""
    return int(method.GetOptions().Extensions[options_pb2.method_path])


def path_name(path: int) -> str:
    """Short name of a path, `DEFERRED_CPU`, or its number where the contract has no name for it."""
    value = path_pb2.PreprocessingPath.DESCRIPTOR.values_by_number.get(path)
    return str(path) if value is None else value.name.removeprefix("PREPROCESSING_PATH_")


def reason_traits(reasons: EnumDescriptor, number: int) -> options_pb2.ReasonTraits | None:
    """What the contract says of an error reason; None where the reason is unknown or says nothing."""
    value = reasons.values_by_number.get(number)
    if value is None or not value.GetOptions().HasExtension(options_pb2.traits):
        return None
    return value.GetOptions().Extensions[options_pb2.traits]


@dataclass(frozen=True, slots=True)
class ContractOptions:
    """The custom options of one version of the contract, each under the full name of its element."""

    message_paths: dict[str, int] = field(default_factory=dict)
    """Every message of the package; 0 where it has no path."""
    method_paths: dict[str, int] = field(default_factory=dict)
    """Every method of the package; 0 where it has no path."""
    rules: dict[str, options_pb2.FieldRules] = field(default_factory=dict)
    """Every field of the package; empty rules where it has none."""
    traits: dict[str, options_pb2.ReasonTraits] = field(default_factory=dict)
    """Every enum value that has traits."""


def baseline_files() -> descriptor_pb2.FileDescriptorSet:
    """The descriptor set of the last release."""
    return descriptor_pb2.FileDescriptorSet.FromString(BASELINE.read_bytes())


def current_files() -> descriptor_pb2.FileDescriptorSet:
    """The descriptors of the stubs that are imported now, as a descriptor set."""
    files = descriptor_pb2.FileDescriptorSet()
    for descriptor in _package_files(service_pb2.DESCRIPTOR):
        # Serialised, not copied with CopyToProto: only parsing resolves options under this process's extensions.
        files.file.append(descriptor_pb2.FileDescriptorProto.FromString(descriptor.serialized_pb))
    return files


@functools.cache
def _package_files(root: FileDescriptor) -> tuple[FileDescriptor, ...]:
    found: dict[str, FileDescriptor] = {}
    waiting = [root]
    while waiting:
        descriptor = waiting.pop()
        if descriptor.package == PACKAGE and descriptor.name not in found:
            found[descriptor.name] = descriptor
            waiting.extend(descriptor.dependencies)
    return tuple(found[name] for name in sorted(found))


def declared_options(files: descriptor_pb2.FileDescriptorSet) -> ContractOptions:
    """Collects the custom options of the contract's own package from a descriptor set."""
    options = ContractOptions()
    for file in files.file:
        if file.package != PACKAGE:
            continue
        for message in file.message_type:
            _collect_message(options, f"{PACKAGE}.{message.name}", message)
        for enum in file.enum_type:
            for value in enum.value:
                if value.options.HasExtension(options_pb2.traits):
                    options.traits[f"{PACKAGE}.{value.name}"] = value.options.Extensions[options_pb2.traits]
        for service in file.service:
            for method in service.method:
                name = f"{PACKAGE}.{service.name}.{method.name}"
                options.method_paths[name] = int(method.options.Extensions[options_pb2.method_path])
    return options


def _collect_message(options: ContractOptions, name: str, message: descriptor_pb2.DescriptorProto) -> None:
    options.message_paths[name] = int(message.options.Extensions[options_pb2.path])
    for message_field in message.field:
        options.rules[f"{name}.{message_field.name}"] = message_field.options.Extensions[options_pb2.rules]
    for nested in message.nested_type:
        _collect_message(options, f"{name}.{nested.name}", nested)


def option_breaks(baseline: ContractOptions, current: ContractOptions) -> list[str]:
    """Says in words what a client of `baseline` would notice of `current`; empty where nothing breaks.

    Limits may only loosen, reasons keep their code and whether they are retryable, paths stay where they are. Elements
    that vanished are not named: `buf breaking` sees those.
    """
    return [*_path_breaks(baseline, current), *_rule_breaks(baseline, current), *_trait_breaks(baseline, current)]


def _path_breaks(baseline: ContractOptions, current: ContractOptions) -> Iterator[str]:
    for old, new in (
        (baseline.message_paths, current.message_paths),
        (baseline.method_paths, current.method_paths),
    ):
        for name, path in old.items():
            if name in new and new[name] != path:
                yield f"{name}: Expected the path {path_name(path)}, got {path_name(new[name])}"


def _rule_breaks(baseline: ContractOptions, current: ContractOptions) -> Iterator[str]:
    for name, new in current.rules.items():
        if name in baseline.rules:
            yield from _tightened(name, baseline.rules[name], new)
        elif new.required and name.rpartition(".")[0] in baseline.message_paths:
            yield f"{name}: Expected a new field of an old message to be optional, got required"


def _tightened(name: str, old: options_pb2.FieldRules, new: options_pb2.FieldRules) -> Iterator[str]:
    if new.required and not old.required:
        yield f"{name}: Expected the field to stay optional, got required"
    for lower in ("minimum", "greater_than", "min_length"):
        if new.HasField(lower) and (not old.HasField(lower) or getattr(new, lower) > getattr(old, lower)):
            yield f"{name}: Expected {lower} to stay or fall, got {getattr(new, lower)}"
    for upper in ("maximum", "max_length"):
        if new.HasField(upper) and (not old.HasField(upper) or getattr(new, upper) < getattr(old, upper)):
            yield f"{name}: Expected {upper} to stay or rise, got {getattr(new, upper)}"


def _trait_breaks(baseline: ContractOptions, current: ContractOptions) -> Iterator[str]:
    for name, old in baseline.traits.items():
        new = current.traits.get(name)
        if new is None:
            yield f"{name}: Expected the reason to keep its traits, got none"
        elif new != old:
            yield (
                f"{name}: Expected code {old.code} and retryable {old.retryable}, "
                f"got code {new.code} and retryable {new.retryable}"
            )
