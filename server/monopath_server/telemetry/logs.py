"""The log on stderr: one record, one line, as text or as JSON, with the stream and the item that it is about."""

from __future__ import annotations

import datetime as dt
import enum
import json
import logging
import sys
from typing import Any, TextIO

from monopath_server.observer import CURRENT_ITEM_ID, CURRENT_STREAM, Ended, ItemFacts, Observer, StreamFacts

__all__ = ["LogFormat", "LogObserver", "configure_logging"]

logger = logging.getLogger(__name__)
_FIELDS = "fields"
"""Attribute of a record with what it has beside its message."""
# A line for each record, so that nobody writes records of the server's by what is logged of theirs.
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F, *range(0x80, 0xA0))} | {
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


class LogFormat(enum.StrEnum):
    """How the log is written."""

    TEXT = enum.auto()
    JSON = enum.auto()


def configure_logging(level: str, log_format: LogFormat, stream: TextIO | None = None) -> None:
    """Have everything from `level` on written to `stream` (stderr)."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonFormatter() if log_format is LogFormat.JSON else _TextFormatter())
    # Handlers run in the thread that logs, so they see the context of what is logged.
    logging.basicConfig(level=level.upper(), handlers=[handler])


class LogObserver(Observer):
    """Logs streams and failed items (INFO), and completed items (DEBUG); nothing that clients sent, labels included."""

    watches_items = True

    @staticmethod
    def is_wanted() -> bool:
        """Whether any of it would be logged."""
        return logger.isEnabledFor(logging.INFO)

    def stream_opened(self, stream: StreamFacts, /) -> None:
        logger.info("Stream opened", extra={_FIELDS: {"transport": stream.transport.value}})

    def stream_ended(self, stream: StreamFacts, /) -> None:
        seconds = round((stream.ended_ns - stream.begun_ns) / 1e9, 6)
        logger.info("Stream ended", extra={_FIELDS: {"reason": stream.ending.name, "seconds": seconds}})

    def goaway_sent(self, _stream: StreamFacts, reason: str, /) -> None:
        logger.info("Stream asked to move", extra={_FIELDS: {"reason": reason}})

    def item_ended(self, _stream: StreamFacts, item: ItemFacts, /) -> None:
        level = logging.DEBUG if item.ending is Ended.COMPLETED else logging.INFO
        if logger.isEnabledFor(level):
            fields = {
                "item_id": item.id,
                "reason": item.ending.name,
                "seconds": round((item.ended_ns - item.accepted_ns) / 1e9, 6),
                "received_bytes": item.received_bytes,
                "sent_bytes": item.sent_bytes,
            }
            logger.log(level, "Item ended", extra={_FIELDS: fields})


class _TextFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is the base class's
        record.message = record.message.translate(_CONTROL)
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        return super().formatMessage(record) + fields.translate(_CONTROL)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - the name is the base class's
        # No line of it begins as a record does.
        return "\n".join(f"  {line.translate(_CONTROL)}" for line in super().formatException(ei).splitlines())


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = dt.datetime.fromtimestamp(record.created, dt.UTC)
        entry: dict[str, Any] = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, default=str)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    """What a record is about."""
    fields: dict[str, object] = {}
    stream = CURRENT_STREAM.get()
    if stream is not None:
        fields.update(method=stream.method, stream_id=stream.id, peer=stream.peer)
    item_id = CURRENT_ITEM_ID.get()
    if item_id is not None:
        fields["item_id"] = item_id
    return {**fields, **getattr(record, _FIELDS, {})}
