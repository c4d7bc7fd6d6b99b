"""Run by the oldest grpcio and protobuf that the package allows: the stubs import, and messages make the round trip.

It may import nothing of the tests or the server. It prints the two versions as its last line.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import google.protobuf
import grpc

from monopath.v1 import service_pb2, service_pb2_grpc


class _Echo(service_pb2_grpc.PreprocessingServiceServicer):
    """Answers on two methods; the generated base refuses the others."""

    def StreamDeferredCpu(self, request_iterator: Any, _context: Any) -> Iterator[Any]:  # noqa: N802  # gRPC's name
        for request in request_iterator:
            response = service_pb2.StreamDeferredCpuResponse()
            response.features.id = request.item.id
            response.features.chunk.data = request.item.image.encoded.data
            yield response

    def GetCapabilities(self, _request: Any, _context: Any) -> Any:  # noqa: N802
        return service_pb2.GetCapabilitiesResponse(contract_version="1.0.0")


def main() -> None:
    """Serves and calls once each way, over loopback."""
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=2))
    service_pb2_grpc.add_PreprocessingServiceServicer_to_server(_Echo(), server)  # type: ignore[abstract]
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    requests = []
    for item_id in (1, 2):
        request = service_pb2.StreamDeferredCpuRequest()
        request.item.id = item_id
        request.item.image.encoded.data = bytes([item_id]) * 3
        requests.append(request)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        stub = service_pb2_grpc.PreprocessingServiceStub(channel)
        responses = list(stub.StreamDeferredCpu(iter(requests), timeout=30))
        capabilities = stub.GetCapabilities(service_pb2.GetCapabilitiesRequest(), timeout=30)
    server.stop(0).wait()
    assert [(item.features.id, item.features.chunk.data) for item in responses] == [(1, b"\1\1\1"), (2, b"\2\2\2")]
    assert capabilities.contract_version == "1.0.0"
    sys.stdout.write(f"{grpc.__version__} {google.protobuf.__version__}\n")


if __name__ == "__main__":
    main()
