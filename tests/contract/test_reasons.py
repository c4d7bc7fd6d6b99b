"""Error reasons: each says what it means for the caller, and the server's own lists are the contract's."""

from __future__ import annotations

import enum

import grpc
import pytest
from google.protobuf.descriptor import EnumDescriptor

from monopath.v1 import error_pb2, options_pb2
from monopath_server.faults import ItemReason, StreamReason
from tests.support.options import reason_traits

_ITEM_REASONS = error_pb2.ItemErrorReason.DESCRIPTOR
_STREAM_REASONS = error_pb2.StreamErrorReason.DESCRIPTOR
_RETRYABLE_CODES = {options_pb2.GRPC_CODE_UNAVAILABLE, options_pb2.GRPC_CODE_RESOURCE_EXHAUSTED}


@pytest.mark.parametrize("reasons", [_ITEM_REASONS, _STREAM_REASONS], ids=lambda reasons: reasons.name)
def test_every_reason_has_a_code_and_the_unspecified_one_has_none(reasons: EnumDescriptor) -> None:
    for number in reasons.values_by_number:
        traits = reason_traits(reasons, number)
        if number == 0:
            assert traits is None
        else:
            assert traits is not None, reasons.values_by_number[number].name
            assert traits.code != options_pb2.GRPC_CODE_UNSPECIFIED


@pytest.mark.parametrize("reasons", [_ITEM_REASONS, _STREAM_REASONS], ids=lambda reasons: reasons.name)
def test_a_retryable_reason_has_a_code_that_clients_retry(reasons: EnumDescriptor) -> None:
    retryable = [traits for number in reasons.values_by_number if (traits := reason_traits(reasons, number))]
    codes = {traits.code for traits in retryable if traits.retryable}
    assert codes
    assert codes <= _RETRYABLE_CODES


@pytest.mark.parametrize(
    ("reasons", "faults"),
    [(_ITEM_REASONS, ItemReason), (_STREAM_REASONS, StreamReason)],
    ids=lambda argument: getattr(argument, "name", None) or argument.__name__,
)
def test_the_servers_reasons_are_those_of_the_contract(reasons: EnumDescriptor, faults: type[enum.Enum]) -> None:
    prefix = {_ITEM_REASONS.name: "ITEM_ERROR_REASON_", _STREAM_REASONS.name: "STREAM_ERROR_REASON_"}[reasons.name]
    names = {value.name.removeprefix(prefix) for value in reasons.values if value.number != 0}
    assert {member.name for member in faults} == names


def test_grpc_codes_are_those_of_grpc() -> None:
    ours = {value.name.removeprefix("GRPC_CODE_"): value.number for value in options_pb2.GrpcCode.DESCRIPTOR.values}
    assert ours.pop("UNSPECIFIED") == grpc.StatusCode.OK.value[0]
    assert ours == {code.name: code.value[0] for code in grpc.StatusCode if code is not grpc.StatusCode.OK}
