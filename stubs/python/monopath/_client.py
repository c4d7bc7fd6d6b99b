"""The sync client."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack, cast

import grpc

from monopath._access import Access, Tls
from monopath._arguments import PlanArguments, StreamArguments, opening, plan_request_of
from monopath._capabilities import Capabilities, capabilities
from monopath._channel import ChannelOption, Target, channel_options, channel_target, names_replicas
from monopath._client_memory import ClientMemory
from monopath._messages import DEFERRED_CPU, DEFERRED_CUDA, LOCAL, InputT, PathAdapter
from monopath._paths import DeferredCpu, DeferredCuda, Local, PathT
from monopath._planning import PlanReply, SizeInput, plan_reply
from monopath._reading import stream_method
from monopath._status import Phase, error_of_status
from monopath._stream import Stream
from monopath.v1 import service_pb2, service_pb2_grpc

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from types import TracebackType

    from monopath._images import ImageInput, LocalFeatures
    from monopath._sync_call import StartSyncCall
    from monopath.cuda_memory import CudaDriver

__all__ = ["Client"]


class Client:
    """A connection to one server, or to several behind one name. Threads may share it; streams are cheap.

    Use it in a `with` statement, or call `close`. `target` is a gRPC name: "host:port", "unix:/path",
    "dns:///name:port". Several addresses, such as ["10.0.0.1:50051", "10.0.0.2:50051"], are replicas and get streams in
    turn, as do those that a name leads to. Without `credentials` nothing is encrypted.
    """

    def __init__(
        self,
        target: Target,
        *,
        credentials: Tls | grpc.ChannelCredentials | None = None,
        token: str | Path | None = None,
        options: Sequence[ChannelOption] = (),
        wait_for_ready: bool = False,
        check_health: bool | None = None,
        shared_memory_directory: Path | None = None,
        cuda_driver: CudaDriver | None = None,
    ) -> None:
        """Make the channel; nothing is sent yet.

        `options` are gRPC channel options that add to ours or replace them. With `wait_for_ready` calls wait for a
        server that cannot be reached, up to their `timeout_seconds`, instead of failing. With `check_health` replicas
        that say that they are not ready get no new streams; behind a proxy it must be off. None: where `target` lists
        several addresses. `shared_memory_directory` is where streams with the transport "shared_memory" meet their
        server; None: /dev/shm. `cuda_driver` replaces NVIDIA's for those with the transport "cuda_ipc".

        `token` is sent with every call, as a bearer token; a file's is read again for each. Without TLS it goes to this
        host only: to a unix socket or a loopback address.

        Raises ValueError for several addresses that cannot go together, and for credentials or a token that cannot be
        used; OSError for a file of theirs that cannot be read.
        """
        name = channel_target(target)
        self._access = Access(target, credentials, token)
        all_options = channel_options(
            (*self._access.options, *options),
            check_health=names_replicas(target) if check_health is None else check_health,
            wait_for_ready=wait_for_ready,
        )
        self._channel = (
            grpc.insecure_channel(name, options=all_options)
            if self._access.credentials is None
            else grpc.secure_channel(name, self._access.credentials, options=all_options)
        )
        self._stub = service_pb2_grpc.PreprocessingServiceStub(self._channel)
        self._memory = ClientMemory(shared_memory_directory, cuda_driver)
        self._streams: weakref.WeakSet[Stream[Any, Any]] = weakref.WeakSet()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every stream of this client and its connections. Harmless when repeated."""
        for stream in list(self._streams):
            stream.close()
        self._channel.close()
        self._memory.close()

    def deferred_cpu(self, **arguments: Unpack[StreamArguments]) -> Stream[DeferredCpu, ImageInput]:
        """Return a stream of images that the server's CPU turns into features. See `StreamArguments`.

        Raises TypeError or ValueError for arguments that cannot be; opening it raises StreamRefused for a config that
        the server refuses.
        """
        return self._stream(DEFERRED_CPU, stream_method(self._channel, "StreamDeferredCpu"), arguments)

    def deferred_cuda(
        self, *, device_uuid: str = "", **arguments: Unpack[StreamArguments]
    ) -> Stream[DeferredCuda, ImageInput]:
        """Return a stream of images that the server's GPU turns into features. See `StreamArguments`.

        `device_uuid` is the GPU, as `capabilities` lists it; "" leaves the choice to the server. Raises as
        `deferred_cpu` does; a server without a GPU refuses the stream with the reason DEVICE_UNAVAILABLE.
        """
        method = stream_method(self._channel, "StreamDeferredCuda")
        return self._stream(DEFERRED_CUDA, method, arguments, device_uuid=device_uuid)

    def local(self, **arguments: Unpack[StreamArguments]) -> Stream[Local, LocalFeatures]:
        """Return a stream of finished features that the server checks and converts. See `StreamArguments`.

        Raises as `deferred_cpu` does.
        """
        return self._stream(LOCAL, stream_method(self._channel, "StreamLocal"), arguments)

    def plan(self, sizes: Iterable[SizeInput], **arguments: Unpack[PlanArguments]) -> PlanReply:
        """Return geometry, token counts and encoder ranks of images from their sizes alone. See `PlanArguments`.

        Raises TypeError or ValueError for arguments that cannot be, RequestRefused for what the server refuses, and
        ConnectionFailed where none is reached.
        """
        request, timeout_seconds, metadata = plan_request_of(sizes, arguments)
        try:
            response = self._stub.Plan(request, timeout=timeout_seconds, metadata=self._access.metadata(metadata))
        except grpc.RpcError as error:
            raise error_of_status(error, Phase.UNARY) from error
        return plan_reply(response, size_count=len(request.images))

    def capabilities(
        self, *, timeout_seconds: float | None = None, metadata: Sequence[tuple[str, str | bytes]] = ()
    ) -> Capabilities:
        """Return what the server can do, and why it cannot do the rest. Raises as `plan` does."""
        try:
            response = self._stub.GetCapabilities(
                service_pb2.GetCapabilitiesRequest(),
                timeout=timeout_seconds,
                metadata=self._access.metadata(metadata),
            )
        except grpc.RpcError as error:
            raise error_of_status(error, Phase.UNARY) from error
        return capabilities(response)

    def _stream(
        self,
        adapter: PathAdapter[PathT, InputT],
        method: object,
        arguments: StreamArguments,
        *,
        device_uuid: str = "",
    ) -> Stream[PathT, InputT]:
        # The adapter makes the requests of its own method only; the union over all paths is where that is not visible.
        start = self._access.starting(cast("StartSyncCall", method), arguments.get("metadata", ()))
        stream = Stream(opening(adapter, arguments, self._memory.new_carrier, device_uuid=device_uuid), start)
        self._streams.add(stream)
        return stream
