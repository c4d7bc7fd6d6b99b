"""What is said to libcuda, by functions that are only played: arguments pass through the real C interface."""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_ubyte, c_uint, c_uint64, c_void_p
from typing import Any

import numpy as np
import pytest

from monopath.cuda_driver import CudaError, LibCuda

# Addresses need more than 32 bits, so that one that is cut short is noticed.
POINTER_OF_MEMORY, EVENT, STREAM, CONTEXT = 0x7F00_1234_5678, 0x5555_0000_2222, 0x5555_0000_3333, 0x5555_0000_1111
HANDLE = bytes(range(64))


class Handle(ctypes.Structure):
    """CUipcMemHandle and CUipcEventHandle of cuda.h."""

    _fields_ = [("reserved", c_ubyte * 64)]


# The types of cuda.h, and what each function writes to its first pointer.
FUNCTIONS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "cuInit": ((c_uint,), None),
    "cuGetErrorName": ((c_int, POINTER(c_char_p)), b"CUDA_ERROR_PLAYED"),
    "cuGetErrorString": ((c_int, POINTER(c_char_p)), b"it is only played"),
    "cuDeviceGetCount": ((POINTER(c_int),), 2),
    "cuDeviceGet": ((POINTER(c_int), c_int), 17),
    "cuDeviceGetUuid": ((POINTER(c_ubyte * 16), c_int), (c_ubyte * 16)(*range(16))),
    "cuDevicePrimaryCtxRetain": ((POINTER(c_void_p), c_int), CONTEXT),
    "cuCtxPushCurrent_v2": ((c_void_p,), None),
    "cuCtxPopCurrent_v2": ((POINTER(c_void_p),), CONTEXT),
    "cuCtxSynchronize": ((), None),
    "cuStreamSynchronize": ((c_void_p,), None),
    "cuMemAlloc_v2": ((POINTER(c_uint64), c_size_t), POINTER_OF_MEMORY),
    "cuMemFree_v2": ((c_uint64,), None),
    "cuMemcpyDtoH_v2": ((c_void_p, c_uint64, c_size_t), None),
    "cuMemcpyHtoD_v2": ((c_uint64, c_void_p, c_size_t), None),
    "cuEventCreate": ((POINTER(c_void_p), c_uint), EVENT),
    "cuEventRecord": ((c_void_p, c_void_p), None),
    "cuEventSynchronize": ((c_void_p,), None),
    "cuEventDestroy_v2": ((c_void_p,), None),
    "cuIpcGetMemHandle": ((POINTER(Handle), c_uint64), Handle((c_ubyte * 64)(*HANDLE))),
    "cuIpcOpenMemHandle_v2": ((POINTER(c_uint64), Handle, c_uint), POINTER_OF_MEMORY),
    "cuIpcCloseMemHandle": ((c_uint64,), None),
    "cuIpcGetEventHandle": ((POINTER(Handle), c_void_p), Handle((c_ubyte * 64)(*HANDLE))),
    "cuIpcOpenEventHandle": ((POINTER(c_void_p), Handle), EVENT),
}


class PlayedLibrary:
    """libcuda, as C functions that call back. `codes` are the results of functions that fail."""

    def __init__(self, **codes: int) -> None:
        self.calls: list[tuple[Any, ...]] = []
        """Names with all arguments that are no pointers to results."""
        self.device_memory = b""
        """What is copied from the device, or was copied to it."""
        for name, (types, result) in FUNCTIONS.items():
            setattr(self, name, ctypes.CFUNCTYPE(c_int, *types)(self._play(name, result, codes.get(name, 0))))

    def _play(self, name: str, result: Any, code: int) -> Any:
        def call(*arguments: Any) -> int:
            plain: list[Any] = [name]
            for argument in arguments:
                if isinstance(argument, ctypes._Pointer):
                    argument[0] = result
                else:
                    plain.append(bytes(argument) if isinstance(argument, Handle) else argument)
            self.calls.append(tuple(plain))
            if name == "cuMemcpyDtoH_v2":
                ctypes.memmove(arguments[0], self.device_memory, arguments[2])
            elif name == "cuMemcpyHtoD_v2":
                self.device_memory = ctypes.string_at(arguments[1], arguments[2])
            return code

        return call


@pytest.fixture
def library() -> PlayedLibrary:
    return PlayedLibrary()


@pytest.fixture
def driver(library: PlayedLibrary) -> LibCuda:
    made = LibCuda(library)
    library.calls.clear()
    return made


def test_devices_are_named_as_the_servers_probe_names_them_without_a_context(
    driver: LibCuda, library: PlayedLibrary
) -> None:
    assert driver.device_uuids() == ("GPU-00010203-0405-0607-0809-0a0b0c0d0e0f",) * 2
    assert not any("Ctx" in name for name, *_ in library.calls)


def test_a_host_whose_driver_has_no_device_has_none() -> None:
    assert LibCuda(PlayedLibrary(cuInit=100)).device_uuids() == ()


def test_a_driver_that_does_not_start_is_an_error_in_its_own_words() -> None:
    with pytest.raises(CudaError, match="cuInit failed with CUDA_ERROR_PLAYED: it is only played") as caught:
        LibCuda(PlayedLibrary(cuInit=804))
    assert caught.value.code == 804


def test_a_driver_that_lacks_a_function_is_said_to_be_old(library: PlayedLibrary) -> None:
    del library.cuIpcOpenMemHandle_v2  # type: ignore[attr-defined]
    with pytest.raises(CudaError, match="Expected an NVIDIA driver that knows cuIpcOpenMemHandle_v2, got an older one"):
        LibCuda(library)


def test_a_host_without_a_driver_is_said_to_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", refuse)
    with pytest.raises(CudaError, match="Expected an NVIDIA driver, got none"):
        LibCuda()


CALLS: dict[str, tuple[Any, Any, tuple[Any, ...]]] = {
    "allocate": (lambda driver: driver.allocate(1, 2**33), POINTER_OF_MEMORY, ("cuMemAlloc_v2", 2**33)),
    "free": (lambda driver: driver.free(1, POINTER_OF_MEMORY), None, ("cuMemFree_v2", POINTER_OF_MEMORY)),
    "memory_handle": (
        lambda driver: driver.memory_handle(1, POINTER_OF_MEMORY),
        HANDLE,
        ("cuIpcGetMemHandle", POINTER_OF_MEMORY),
    ),
    # No timing, and interprocess.
    "new_event": (lambda driver: driver.new_event(1), EVENT, ("cuEventCreate", 2 | 4)),
    "event_handle": (lambda driver: driver.event_handle(1, EVENT), HANDLE, ("cuIpcGetEventHandle", EVENT)),
    "record": (lambda driver: driver.record(1, EVENT, STREAM), None, ("cuEventRecord", EVENT, STREAM)),
    "wait": (lambda driver: driver.wait(1, EVENT), None, ("cuEventSynchronize", EVENT)),
    "destroy_event": (lambda driver: driver.destroy_event(1, EVENT), None, ("cuEventDestroy_v2", EVENT)),
    # With peer access, the one flag that there is, and it is demanded.
    "open_memory": (
        lambda driver: driver.open_memory(1, HANDLE),
        POINTER_OF_MEMORY,
        ("cuIpcOpenMemHandle_v2", HANDLE, 1),
    ),
    "close_memory": (
        lambda driver: driver.close_memory(1, POINTER_OF_MEMORY),
        None,
        ("cuIpcCloseMemHandle", POINTER_OF_MEMORY),
    ),
    "open_event": (lambda driver: driver.open_event(1, HANDLE), EVENT, ("cuIpcOpenEventHandle", HANDLE)),
    "synchronize": (lambda driver: driver.synchronize(1), None, ("cuCtxSynchronize",)),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_is_made_in_the_devices_primary_context_and_leaves_the_threads_own(
    driver: LibCuda, library: PlayedLibrary, name: str
) -> None:
    call, result, expected = CALLS[name]
    assert call(driver) == result
    assert library.calls == [
        ("cuDeviceGet", 1),
        ("cuDevicePrimaryCtxRetain", 17),
        ("cuCtxPushCurrent_v2", CONTEXT),
        expected,
        ("cuCtxPopCurrent_v2",),
    ]
    call(driver)
    assert [found[0] for found in library.calls].count("cuDevicePrimaryCtxRetain") == 1


@pytest.mark.parametrize(
    ("failing", "name"), [(found[0], name) for name, (_, _, found) in CALLS.items()], ids=list(CALLS)
)
def test_a_call_that_fails_says_how_and_leaves_the_threads_context(failing: str, name: str) -> None:
    library = PlayedLibrary(**{failing: 2})
    driver = LibCuda(library)
    with pytest.raises(CudaError, match=f"{failing} failed with CUDA_ERROR_PLAYED") as caught:
        CALLS[name][0](driver)
    assert caught.value.is_out_of_memory
    assert library.calls[-1] == ("cuCtxPopCurrent_v2",)


def test_bytes_are_copied_both_ways(driver: LibCuda, library: PlayedLibrary) -> None:
    data = np.arange(100, dtype=np.uint8)
    data.setflags(write=False)
    driver.copy_to_device(0, POINTER_OF_MEMORY, data.data)
    assert library.device_memory == data.tobytes()
    assert library.calls[-2] == ("cuStreamSynchronize", None)
    assert driver.copy_to_host(0, POINTER_OF_MEMORY, 100) == data.tobytes()


@pytest.mark.parametrize("size", [0, 63, 65])
def test_a_handle_of_another_size_never_reaches_the_driver(driver: LibCuda, library: PlayedLibrary, size: int) -> None:
    with pytest.raises(CudaError, match=f"Expected a handle of 64 bytes, got {size}"):
        driver.open_memory(0, bytes(size))
    with pytest.raises(CudaError, match=f"Expected a handle of 64 bytes, got {size}"):
        driver.open_event(0, bytes(size))
    assert not any("Open" in name for name, *_ in library.calls)
