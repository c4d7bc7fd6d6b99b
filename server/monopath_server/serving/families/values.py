"""Fields that the messages of several families share."""

from __future__ import annotations

from google.protobuf.message import Message

from monopath.v1 import config_pb2
from monopath_server.processors.ranges import ChannelValues
from monopath_server.processors.types import AlphaPolicy, OrientationPolicy, ResampleKernel
from monopath_server.serving.enums import ALPHA_POLICIES, ORIENTATION_POLICIES, RESAMPLE_KERNELS

__all__ = ["alpha_or_none", "channel_message", "channel_values", "kernel_or_none", "orientation_or_none"]


def _chosen(message: Message, field: str) -> int | None:
    number: int | None = getattr(message, field) if message.HasField(field) else None
    return number


def kernel_or_none(message: Message) -> ResampleKernel | None:
    """The resize arithmetic that a message names; None where it names none."""
    number = _chosen(message, "resample_kernel")
    return None if number is None else RESAMPLE_KERNELS.to_inner(number)


def orientation_or_none(message: Message) -> OrientationPolicy | None:
    """The orientation policy that a message names; None where it names none."""
    number = _chosen(message, "orientation_policy")
    return None if number is None else ORIENTATION_POLICIES.to_inner(number)


def alpha_or_none(message: Message) -> AlphaPolicy | None:
    """The alpha policy that a message names; None where it names none."""
    number = _chosen(message, "alpha_policy")
    return None if number is None else ALPHA_POLICIES.to_inner(number)


def channel_values(message: config_pb2.ChannelValues) -> ChannelValues:
    """Red, green and blue."""
    return (message.red, message.green, message.blue)


def channel_message(values: ChannelValues) -> config_pb2.ChannelValues:
    """Red, green and blue."""
    red, green, blue = values
    return config_pb2.ChannelValues(red=red, green=green, blue=blue)
