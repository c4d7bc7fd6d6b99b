"""Which CUDA device each of several processes sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from monopath_server.transforms.cuda.probe import DeviceProbe

__all__ = ["DEVICES_VARIABLE", "visible_devices"]

DEVICES_VARIABLE = "CUDA_VISIBLE_DEVICES"
_ALL = ("all",)


def visible_devices(names: Sequence[str], probe: DeviceProbe, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return what `CUDA_VISIBLE_DEVICES` has to be for each of the processes, to see the device that it is for.

    Args:
        names: `cuda:0` and so on, as numbered among those that this process sees; UUIDs; or only "all".
        probe: What this process sees.
        environment: Its variables.

    Raises:
        ValueError: there is no such device, or one is named twice.
    """
    if not probe.available:
        raise ValueError(f"expected CUDA devices, got none: {'; '.join(probe.missing)}")
    # Where the variable is set it may name parts of a device (MIG), which have to be named so again.
    listed = [text.strip() for text in environment.get(DEVICES_VARIABLE, "").split(",") if text.strip()]
    visible: dict[str, str] = {}
    for device in probe.devices:
        value = listed[device.index] if device.index < len(listed) else device.uuid
        visible |= {f"cuda:{device.index}": value, device.uuid: value, value: value}
    chosen = [f"cuda:{device.index}" for device in probe.devices] if tuple(names) == _ALL else list(names)
    if unknown := [name for name in chosen if name not in visible]:
        known = ", ".join(f"cuda:{device.index} ({device.uuid}, {device.name})" for device in probe.devices)
        raise ValueError(f"expected some of {known}, got {', '.join(unknown)}")
    values = tuple(visible[name] for name in chosen)
    if len(set(values)) < len(values):
        raise ValueError(f"expected each device once, got {', '.join(chosen)}")
    return values
