"""Which CUDA device each of several processes sees."""

from __future__ import annotations

import pytest

from monopath_server.supervision.devices import visible_devices
from monopath_server.transforms.cuda.probe import CudaDeviceFacts, DeviceProbe

TWO = DeviceProbe(True, (CudaDeviceFacts(0, "GPU-a", "NVIDIA A", 1), CudaDeviceFacts(1, "GPU-b", "NVIDIA B", 1)), ())


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("cuda:0", "cuda:1"), ("GPU-a", "GPU-b")),
        (("cuda:1",), ("GPU-b",)),
        (("GPU-b", "cuda:0"), ("GPU-b", "GPU-a")),
        (("all",), ("GPU-a", "GPU-b")),
    ],
)
def test_devices_are_named_by_their_uuids(names: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert visible_devices(names, TWO, {}) == expected


def test_where_only_some_devices_are_visible_they_keep_the_names_that_they_have_there() -> None:
    environment = {"CUDA_VISIBLE_DEVICES": "MIG-x, 3"}
    assert visible_devices(("cuda:1", "MIG-x"), TWO, environment) == ("3", "MIG-x")


@pytest.mark.parametrize(
    ("names", "complaint"),
    [
        (("cuda:2",), r"expected some of cuda:0 \(GPU-a, NVIDIA A\), cuda:1 \(GPU-b, NVIDIA B\), got cuda:2"),
        (("cuda:0", "all"), "got all"),
        (("cuda:0", "GPU-a"), "expected each device once, got cuda:0, GPU-a"),
    ],
)
def test_devices_that_are_not_there_are_refused_with_those_that_are(names: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        visible_devices(names, TWO, {})


def test_without_cuda_the_reason_is_said() -> None:
    probe = DeviceProbe(False, (), ("torch is not installed", "no driver"))
    with pytest.raises(ValueError, match="expected CUDA devices, got none: torch is not installed; no driver"):
        visible_devices(("all",), probe, {})
