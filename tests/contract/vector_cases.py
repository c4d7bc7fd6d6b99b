"""Contract vectors: cases as data. The README.md in their folder gives the format."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from google.protobuf import json_format, message_factory
from google.protobuf.descriptor import MethodDescriptor

from tests.support.options import SERVICE, method_path

__all__ = ["GROUPS", "VECTORS", "Vector", "load_vectors"]

VECTORS = Path(__file__).with_name("vectors")
GROUPS = (
    "opening",
    "grammar",
    "paths",
    "items",
    "images",
    "element types",
    "numbers",
    "enums",
    "forward compatibility",
    "local",
    "cuda",
    "unary",
)
"""What a vector is about, in the order of the table that `make conformance` prints."""
_KEYS = {
    "name",
    "group",
    "why",
    "method",
    "cuda",
    "server",
    "segments",
    "requests",
    "half_close",
    "expected_events",
    "expected_features",
    "expected_status",
}
_REQUIRED_KEYS = _KEYS - {"cuda", "server", "segments", "expected_features"}


@dataclass(frozen=True, slots=True)
class Vector:
    """One case."""

    name: str
    group: str
    """What it is about: one of `GROUPS`."""
    why: str
    method: str
    """Short name of the method: `StreamDeferredCpu`."""
    requests: tuple[Mapping[str, Any], ...]
    """Protobuf JSON, or `{"wire": base64}` for bytes that JSON cannot say."""
    half_close: bool
    expected_events: tuple[Mapping[str, Any], ...]
    """Partial protobuf JSON of every response but features."""
    expected_features: Mapping[str, str]
    """SHA-256 of each completed item's features, by item id."""
    expected_code: str
    expected_reason: str
    expected_violations: tuple[str, ...]
    segments: Mapping[str, Mapping[str, Any]]
    """Shared memory that the requests speak of, by the name that stands for it: `data` and `size_bytes`."""
    cuda: bool | None
    """Whether the server must have CUDA (true), must not have it (false), or may."""
    newer: bool
    """The server is one of a newer contract: tests/conformance/newer_server.py."""

    @property
    def descriptor(self) -> MethodDescriptor:
        """The method."""
        return SERVICE.methods_by_name[self.method]

    @property
    def path(self) -> int:
        """The path that the method is; 0 for a unary method."""
        return method_path(self.descriptor)

    @property
    def is_json(self) -> bool:
        """Whether every request can be said in protobuf JSON."""
        return not any("wire" in request for request in self.requests)

    def job(self) -> dict[str, Any]:
        """What a client has to know: the case in JSON, without what is expected of it."""
        return {
            "name": self.name,
            "group": self.group,
            "why": self.why,
            "method": self.method,
            "requests": list(self.requests),
            "half_close": self.half_close,
            **({"server": "newer"} if self.newer else {}),
        }

    def on_cuda(self) -> Vector:
        """The same case on `StreamDeferredCuda`: its payloads have the same names, its features the same bytes.

        Raises:
            ValueError: The vector is not one of `StreamDeferredCpu`, or has requests that JSON cannot say.
        """
        if self.method != "StreamDeferredCpu" or not self.is_json:
            raise ValueError(f"Expected a vector of StreamDeferredCpu in JSON, got {self.name}")
        events = json.loads(json.dumps(self.expected_events).replace("PATH_DEFERRED_CPU", "PATH_DEFERRED_CUDA"))
        return replace(self, method="StreamDeferredCuda", expected_events=tuple(events))

    def naming(self, names: Mapping[str, str]) -> Vector:
        """The same case with real names of its segments."""
        text = json.dumps(self.requests)
        for placeholder, name in names.items():
            text = text.replace(json.dumps(placeholder), json.dumps(name))
        return replace(self, requests=tuple(json.loads(text)))

    def documents(self) -> list[dict[str, Any]]:
        """The requests in protobuf JSON, those that are given as bytes too, as far as this contract reads them."""
        message_type = message_factory.GetMessageClass(self.descriptor.input_type)
        return [json_format.MessageToDict(message_type.FromString(request)) for request in self.request_bytes()]

    def request_bytes(self) -> list[bytes]:
        """The requests as they go over the wire."""
        message_type = message_factory.GetMessageClass(self.descriptor.input_type)
        return [
            base64.b64decode(request["wire"], validate=True)
            if "wire" in request
            else json_format.ParseDict(dict(request), message_type()).SerializeToString()
            for request in self.requests
        ]


def load_vectors() -> list[Vector]:
    """Every vector, in the order of file names.

    Raises:
        ValueError: A file has missing or unknown keys, another name than its vector, or a group that is none.
    """
    return [_load(path) for path in sorted(VECTORS.glob("*.json"))]


def _load(path: Path) -> Vector:
    data = json.loads(path.read_text())
    if not _REQUIRED_KEYS <= data.keys() <= _KEYS:
        raise ValueError(f"Expected the keys {sorted(_KEYS)} in {path.name}, got {sorted(data)}")
    if data["name"] != path.stem:
        raise ValueError(f"Expected the name {path.stem!r}, got {data['name']!r}")
    if data.get("server", "newer") != "newer":
        raise ValueError(f"Expected the server 'newer', or none, in {path.name}, got {data['server']!r}")
    if data["group"] not in GROUPS:
        raise ValueError(f"Expected a group of {GROUPS} in {path.name}, got {data['group']!r}")
    status = data["expected_status"]
    return Vector(
        name=data["name"],
        group=data["group"],
        why=data["why"],
        method=data["method"],
        requests=tuple(data["requests"]),
        half_close=data["half_close"],
        expected_events=tuple(data["expected_events"]),
        expected_features=data.get("expected_features", {}),
        expected_code=status["code"],
        expected_reason=status["reason"],
        expected_violations=tuple(status["violations"]),
        segments=data.get("segments", {}),
        cuda=data.get("cuda"),
        newer=data.get("server") == "newer",
    )
