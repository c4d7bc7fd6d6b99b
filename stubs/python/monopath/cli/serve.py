"""`monopath serve`: run a server in the foreground."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from monopath.cli.faults import ExitCode, UserFault, needs_server
from monopath.cli.limit_options import (
    DEFAULTS,
    BatchWaitOption,
    CacheBytesOption,
    ChunkBytesOption,
    FeatureBytesOption,
    GraceOption,
    IdleBufferBytesOption,
    IdleTimeoutOption,
    ImageBytesOption,
    ImagePixelsOption,
    ImageSideOption,
    LameDuckOption,
    LeaseTimeoutOption,
    OpeningTimeoutOption,
    ProcessBytesOption,
    ProcessItemsOption,
    ProcessPixelsOption,
    ReplyTimeoutOption,
    SharedDeviceBytesOption,
    SharedMemoryBytesOption,
    SharedMemoryDirectoryOption,
    StreamAgeOption,
    StreamsOption,
    UnfinishedBytesOption,
    UnfinishedItemsOption,
    UnfinishedPixelsOption,
)
from monopath.cli.listening import check_address
from monopath.cli.options import read_text
from monopath.cli.security_options import (
    ChannelzOption,
    InsecureOption,
    PeerBytesOption,
    PeerItemsOption,
    PeerPixelsOption,
    PeerStreamsOption,
    ReflectionOption,
    TlsCertificateOption,
    TlsClientAuthoritiesOption,
    TlsKeyOption,
    TokenFileOption,
)
from monopath.cli.serve_options import (
    AddressOption,
    CudaOption,
    LogLevel,
    LogLevelOption,
    PresetFilesOption,
    ReadyFileOption,
    WorkersOption,
)
from monopath.cli.telemetry_options import (
    LogFormatOption,
    MetricsAddressOption,
    OtlpEndpointOption,
    telemetry_settings,
)
from monopath.cli.values import PresetFile
from monopath_server import __version__
from monopath_server.media.limits import ImageLimits
from monopath_server.security.settings import SecurityError, SecuritySettings
from monopath_server.settings import Settings
from monopath_server.telemetry.logs import LogFormat, configure_logging

if TYPE_CHECKING:
    from monopath_server.processors.family import ProcessorConfig

__all__ = ["serve"]


def serve(
    address: AddressOption = DEFAULTS.address,
    tls_cert: TlsCertificateOption = None,
    tls_key: TlsKeyOption = None,
    tls_client_ca: TlsClientAuthoritiesOption = None,
    token_file: TokenFileOption = None,
    insecure: InsecureOption = False,
    reflection: ReflectionOption = DEFAULTS.security.reflection,
    channelz: ChannelzOption = False,
    max_peer_streams: PeerStreamsOption = DEFAULTS.security.max_peer_streams,
    max_peer_items: PeerItemsOption = DEFAULTS.security.max_peer_items,
    max_peer_bytes: PeerBytesOption = DEFAULTS.security.max_peer_bytes,
    max_peer_pixels: PeerPixelsOption = DEFAULTS.security.max_peer_pixels,
    workers: WorkersOption = DEFAULTS.worker_count,
    preset: PresetFilesOption = None,
    cuda: CudaOption = DEFAULTS.cuda,
    ready_file: ReadyFileOption = None,
    log_level: LogLevelOption = LogLevel.WARNING,
    log_format: LogFormatOption = LogFormat.TEXT,
    metrics_address: MetricsAddressOption = None,
    otlp_endpoint: OtlpEndpointOption = None,
    grace: GraceOption = DEFAULTS.grace_seconds,
    lame_duck: LameDuckOption = DEFAULTS.lame_duck_seconds,
    max_image_bytes: ImageBytesOption = DEFAULTS.image_limits.max_encoded_bytes,
    max_image_side: ImageSideOption = DEFAULTS.image_limits.max_side_px,
    max_image_pixels: ImagePixelsOption = DEFAULTS.image_limits.max_pixels,
    max_feature_bytes: FeatureBytesOption = DEFAULTS.max_feature_bytes,
    max_unfinished_items: UnfinishedItemsOption = DEFAULTS.max_unfinished_items,
    max_unfinished_bytes: UnfinishedBytesOption = DEFAULTS.max_unfinished_bytes,
    max_unfinished_pixels: UnfinishedPixelsOption = DEFAULTS.max_unfinished_pixels,
    max_streams: StreamsOption = DEFAULTS.max_streams,
    max_process_items: ProcessItemsOption = DEFAULTS.max_process_items,
    max_process_bytes: ProcessBytesOption = DEFAULTS.max_process_bytes,
    max_process_pixels: ProcessPixelsOption = DEFAULTS.max_process_pixels,
    chunk_bytes: ChunkBytesOption = DEFAULTS.chunk_bytes,
    idle_buffer_bytes: IdleBufferBytesOption = DEFAULTS.idle_buffer_bytes,
    cache_bytes: CacheBytesOption = DEFAULTS.cache_bytes,
    shared_memory_dir: SharedMemoryDirectoryOption = DEFAULTS.shared_memory_directory,
    max_shared_memory_bytes: SharedMemoryBytesOption = DEFAULTS.max_shared_memory_bytes,
    max_shared_device_bytes: SharedDeviceBytesOption = DEFAULTS.max_shared_device_bytes,
    lease_timeout: LeaseTimeoutOption = DEFAULTS.lease_timeout_seconds,
    batch_wait_us: BatchWaitOption = DEFAULTS.batch_wait_us,
    opening_timeout: OpeningTimeoutOption = DEFAULTS.opening_timeout_seconds,
    idle_timeout: IdleTimeoutOption = DEFAULTS.idle_timeout_seconds,
    reply_timeout: ReplyTimeoutOption = DEFAULTS.reply_timeout_seconds,
    max_stream_age: StreamAgeOption = DEFAULTS.max_stream_age_seconds,
) -> None:
    """Run a server until SIGTERM or Ctrl-C.

    Writes one line with its address when it is ready. On a signal it finishes what it accepted and ends with exit code
    0; a second signal ends it at once. Exit code 1: it cannot listen at the address; 2: a wrong option or preset file,
    or it would be open to others than it is meant for.
    """
    configure_logging(log_level.value, log_format)
    presets = {**DEFAULTS.presets, **_read_presets(preset or [])}
    _check_ready_file(ready_file)
    check_address(address)
    _check_shared_memory(shared_memory_dir)
    settings = Settings(
        address=address,
        security=SecuritySettings(
            certificate_file=tls_cert,
            private_key_file=tls_key,
            client_ca_file=tls_client_ca,
            token_file=token_file,
            insecure=insecure,
            reflection=reflection,
            channelz=channelz,
            max_peer_streams=max_peer_streams,
            max_peer_items=max_peer_items,
            max_peer_bytes=max_peer_bytes,
            max_peer_pixels=max_peer_pixels,
        ),
        worker_count=workers,
        cuda=cuda,
        image_limits=ImageLimits(max_image_side, max_image_pixels, max_image_bytes),
        max_feature_bytes=max_feature_bytes,
        max_unfinished_items=max_unfinished_items,
        max_unfinished_bytes=max_unfinished_bytes,
        max_unfinished_pixels=max_unfinished_pixels,
        max_streams=max_streams,
        max_process_items=max_process_items,
        max_process_bytes=max_process_bytes,
        max_process_pixels=max_process_pixels,
        chunk_bytes=chunk_bytes,
        idle_buffer_bytes=idle_buffer_bytes,
        cache_bytes=cache_bytes,
        shared_memory_directory=shared_memory_dir,
        max_shared_memory_bytes=max_shared_memory_bytes,
        max_shared_device_bytes=max_shared_device_bytes,
        lease_timeout_seconds=lease_timeout,
        batch_wait_us=batch_wait_us,
        opening_timeout_seconds=opening_timeout,
        idle_timeout_seconds=idle_timeout,
        reply_timeout_seconds=reply_timeout,
        max_stream_age_seconds=max_stream_age,
        lame_duck_seconds=lame_duck,
        grace_seconds=grace,
        telemetry=telemetry_settings(metrics_address, otlp_endpoint),
        presets=presets,
    )
    with _ready_announcer(ready_file) as on_ready:
        _run(settings, on_ready)


def _run(settings: Settings, on_ready: Callable[[str], None]) -> None:
    try:
        from monopath_server import event_loop
        from monopath_server.app import AddressError
        from monopath_server.run import run_server
    except ModuleNotFoundError as error:
        raise needs_server("`monopath serve`", error) from None
    try:
        event_loop.run(run_server(settings, on_ready))
    except SecurityError as error:
        raise UserFault(str(error)) from None
    except AddressError as error:
        raise UserFault(str(error), ExitCode.FAILED) from None
    except RuntimeError as error:
        raise UserFault(f"This installation cannot serve: {error}", ExitCode.FAILED) from None


def _read_presets(files: list[PresetFile]) -> dict[str, ProcessorConfig]:
    """Read all files. Raises UserFault with what is wrong in any of them."""
    from monopath_server.faults import ConfigFault
    from monopath_server.processors.checkpoint_json import parse_checkpoint_json

    presets: dict[str, ProcessorConfig] = {}
    faults: list[str] = []
    for file in files:
        if file.name in presets:
            faults.append(f"preset {file.name} ({file.path}):\n  Expected each name once, got it again")
            continue
        try:
            parsed = parse_checkpoint_json(read_text(file.path, f"preset {file.name}"))
        except UserFault as fault:
            faults.append(fault.text)
        except ConfigFault as fault:
            lines = (f"  {f'{wrong.field}: ' if wrong.field else ''}{wrong.description}" for wrong in fault.violations)
            faults.append("\n".join((f"preset {file.name} ({file.path}):", *lines)))
        else:
            presets[file.name] = parsed.config
            for warning in parsed.warnings:
                logging.getLogger(__name__).warning(
                    "preset %s (%s): %s: %s", file.name, file.path, warning.field, warning.description
                )
    if faults:
        raise UserFault("\n".join(faults))
    return presets


def _check_shared_memory(directory: Path) -> None:
    # Without the usual one, on a system that has none, the server starts all the same and says so to who asks for it.
    if directory != DEFAULTS.shared_memory_directory and not os.access(directory, os.W_OK | os.X_OK):
        raise UserFault(f"--shared-memory-dir: expected a folder that can be written to, got {directory}")


def _check_ready_file(ready_file: Path | None) -> None:
    if ready_file is not None and not ready_file.absolute().parent.is_dir():
        raise UserFault(f"--ready-file: there is no folder {ready_file.absolute().parent}")


@contextlib.contextmanager
def _ready_announcer(ready_file: Path | None) -> Iterator[Callable[[str], None]]:
    """Give what tells that the server is ready; what it wrote to a file is removed on the way out."""
    written = False

    def announce(address: str) -> None:
        nonlocal written
        if ready_file is not None:
            facts = {"address": address, "pid": os.getpid(), "version": __version__}
            draft = ready_file.with_name(f".{ready_file.name}.{os.getpid()}")
            draft.write_text(json.dumps(facts) + "\n", "utf-8")
            draft.replace(ready_file)
            written = True
        sys.stdout.write(f"monopath {__version__} is ready at {address}\n")
        sys.stdout.flush()

    try:
        yield announce
    finally:
        if written and ready_file is not None:
            ready_file.unlink(missing_ok=True)
