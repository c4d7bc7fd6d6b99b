"""Requests and replies of an encoder: one method for each preprocessing path, and the same for a rank's share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias

import numpy as np
import numpy.typing as npt

from examples.encoder.faults import Refused
from examples.encoder.frames import Header, pack, unpack
from examples.encoder.sources import EncodedImage, FinishedFeatures, Source, SourceT_co

__all__ = [
    "FEATURES",
    "IMAGES",
    "BatchReport",
    "Embedding",
    "Failure",
    "Kind",
    "Outcome",
    "Reply",
    "Request",
    "pack_request",
    "unpack_request",
]


@dataclass(frozen=True, slots=True)
class Kind(Generic[SourceT_co]):
    """What a request is made of, and the methods that take it. One kind is one preprocessing path."""

    method: str
    """Encodes a whole request. Any rank takes it, and shares it out."""
    share_method: str
    """Encodes what belongs to the rank that is asked."""
    unpacked: Callable[[Header, memoryview], SourceT_co]


IMAGES = Kind("EncodeImages", "EncodeImageShare", EncodedImage.unpacked)
FEATURES = Kind("EncodeFeatures", "EncodeFeatureShare", FinishedFeatures.unpacked)


@dataclass(frozen=True, slots=True)
class Request(Generic[SourceT_co]):
    """Images that are to be encoded."""

    sources: Sequence[SourceT_co]
    config_sha256: bytes = b""
    """The preprocessing config that holds: the one that features were made under, or that a share was planned with."""


@dataclass(frozen=True, slots=True, eq=False)
class Embedding:
    """What the encoder made of an image."""

    array: npt.NDArray[np.float32]
    """[tokens, channels]"""
    rank: int
    cached: bool
    """The rank had it already, and neither preprocessed nor encoded the image."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an image has no embedding; its neighbours are not affected."""

    reason: str
    """An `ItemErrorReason`."""
    message: str


Outcome: TypeAlias = Embedding | Failure


@dataclass(frozen=True, slots=True)
class BatchReport:
    """One run of the encoder."""

    rank: int
    image_count: int
    paths: tuple[str, ...]
    """The paths that the features came by, as the preprocessing server said of each. More than one: a mixed batch."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One outcome for each image, in the request's order."""

    outcomes: tuple[Outcome, ...]
    batches: tuple[BatchReport, ...] = ()

    def packed(self) -> bytes:
        """Return it as a message."""
        entries: list[Header] = []
        blobs: list[memoryview] = []
        for outcome in self.outcomes:
            match outcome:
                case Embedding(array, rank, cached):
                    entries.append({"shape": array.shape, "rank": rank, "cached": cached})
                    blobs.append(np.ascontiguousarray(array).data.cast("B"))
                case Failure(reason, message):
                    entries.append({"reason": reason, "message": message})
        batches = [(batch.rank, batch.image_count, batch.paths) for batch in self.batches]
        return pack({"outcomes": entries, "batches": batches}, blobs)

    @classmethod
    def unpacked(cls, message: bytes) -> Reply:
        """Read it from a message."""
        header, blobs = unpack(message)
        arrays = iter(blobs)
        outcomes: list[Outcome] = []
        for entry in header["outcomes"]:
            if "reason" in entry:
                outcomes.append(Failure(entry["reason"], entry["message"]))
            else:
                array = np.frombuffer(next(arrays), "<f4").reshape(entry["shape"])
                outcomes.append(Embedding(array, entry["rank"], entry["cached"]))
        batches = (BatchReport(rank, count, tuple(paths)) for rank, count, paths in header["batches"])
        return cls(tuple(outcomes), tuple(batches))


def pack_request(request: Request[Source[object]]) -> bytes:
    """Return a request as a message."""
    packed = [source.packed() for source in request.sources]
    header = {"config_sha256": request.config_sha256.hex(), "images": [header for header, _ in packed]}
    return pack(header, [blob for _, blob in packed])


def unpack_request(kind: Kind[SourceT_co], message: bytes) -> Request[SourceT_co]:
    """Read a request. Raises Refused for what is none of this kind."""
    header, blobs = unpack(message)
    try:
        headers, config_sha256 = list(header["images"]), bytes.fromhex(header["config_sha256"])
    except (KeyError, TypeError, ValueError):
        raise Refused("Expected a request with images and config_sha256, got another") from None
    if len(headers) != len(blobs):
        raise Refused(f"Expected {len(headers)} images, got {len(blobs)}")
    return Request([kind.unpacked(*image) for image in zip(headers, blobs, strict=True)], config_sha256)
