"""The log: a record a line, what it is about, and never what clients sent."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from monopath_server.engine import host
from monopath_server.observer import CURRENT_ITEM_ID, CURRENT_STREAM, StreamFacts
from monopath_server.telemetry import logs
from monopath_server.telemetry.logs import LogFormat, configure_logging
from tests.support.server import quick_settings
from tests.support.stream import encoded, make_item, photo, png, running_rig

GOOD = png(photo(60, 44))
INJECTION = 'label"}\n2026-01-01 ERROR monopath: forged\r\n\x1b[2J\u2028'
Lines = Callable[[], list[str]]


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, LogFormat], Lines]]:
    """Configures the log as `monopath serve` does, and gives what reads its lines."""
    root = logging.getLogger()
    level = root.level

    def configure(level: str, log_format: LogFormat) -> Lines:
        monkeypatch.setattr(root, "handlers", [])  # here, since pytest adds some before the test
        stream = io.StringIO()
        configure_logging(level, log_format, stream)
        return lambda: stream.getvalue().splitlines()

    yield configure
    root.setLevel(level)


def entries(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


@pytest.mark.asyncio
async def test_streams_and_items_are_logged_with_what_they_are_about(
    configured: Callable[[str, LogFormat], Lines],
) -> None:
    lines = configured("debug", LogFormat.JSON)
    async with running_rig() as rig:
        await rig.run([make_item(7, encoded(GOOD), INJECTION), make_item(8, encoded(b"no image"), INJECTION)])
    found = [entry for entry in entries(lines()) if entry["logger"] == logs.__name__]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", entry["time"]) for entry in found)
    about = [(entry["message"], entry["level"], entry.get("item_id"), entry.get("reason")) for entry in found]
    assert about[0] == ("Stream opened", "INFO", None, None)
    assert sorted(about[1:3], key=lambda entry: str(entry[2])) == [
        ("Item ended", "DEBUG", 7, "COMPLETED"),
        ("Item ended", "INFO", 8, "IMAGE_UNSUPPORTED"),
    ]
    assert about[3:] == [("Stream ended", "INFO", None, "COMPLETED")]
    for entry in found:
        assert (entry["method"], entry["stream_id"]) == ("StreamDeferredCpu", 1)
        assert entry["peer"].startswith("ipv4:127.0.0.1:")
    assert found[0]["transport"] == "inline"
    assert not [line for line in lines() if "label" in line]


@pytest.mark.asyncio
async def test_an_unexpected_error_is_one_line_with_its_traceback_and_its_item(
    configured: Callable[[str, LogFormat], Lines], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise RuntimeError(f"one line\nand {INJECTION}")

    monkeypatch.setattr(host, "decode_planned", fail)
    lines = configured("warning", LogFormat.JSON)
    async with running_rig() as rig:
        stream = await rig.run([make_item(5, encoded(GOOD))])
    assert stream.outcomes[5].reason == "INTERNAL"
    [entry] = entries(lines())
    assert (entry["message"], entry["level"]) == ("An item failed unexpectedly", "ERROR")
    assert (entry["method"], entry["stream_id"], entry["item_id"]) == ("StreamDeferredCpu", 1, 5)
    assert "Traceback" in entry["exception"]
    assert INJECTION in entry["exception"]


def test_a_traceback_in_text_cannot_write_a_record_of_its_own(
    configured: Callable[[str, LogFormat], Lines],
) -> None:
    lines = configured("warning", LogFormat.TEXT)
    try:
        raise RuntimeError(INJECTION)
    except RuntimeError:
        logging.getLogger("somebody").exception("failed")
    first, *others = lines()
    assert first.endswith(" ERROR somebody: failed")
    assert len(others) > 2
    assert all(line.startswith("  ") and "\x1b" not in line for line in others)


@pytest.mark.asyncio
async def test_nothing_is_logged_of_good_and_bad_items_from_warning_on(
    configured: Callable[[str, LogFormat], Lines],
) -> None:
    lines = configured("warning", LogFormat.TEXT)
    async with running_rig(quick_settings()) as rig:
        assert not rig.server.telemetry.observer.watches_items
        await rig.run([make_item(1, encoded(GOOD)), make_item(2, encoded(b"no image"))])
    assert lines() == []


@pytest.mark.parametrize("log_format", list(LogFormat))
def test_a_message_cannot_write_a_record_of_its_own(
    log_format: LogFormat, configured: Callable[[str, LogFormat], Lines]
) -> None:
    lines = configured("info", log_format)
    logging.getLogger("somebody").warning("got %s", INJECTION, extra={"fields": {"label": INJECTION}})
    [line] = lines()
    assert "\x1b" not in line
    if log_format is LogFormat.JSON:
        entry = json.loads(line)
        assert (entry["message"], entry["label"]) == (f"got {INJECTION}", INJECTION)
    else:
        assert "\\x0a" in line


def test_text_has_the_stream_and_the_item_behind_the_message(configured: Callable[[str, LogFormat], Lines]) -> None:
    lines = configured("info", LogFormat.TEXT)
    CURRENT_STREAM.set(StreamFacts(3, "StreamLocal", "LOCAL", "unix:"))
    CURRENT_ITEM_ID.set(4)
    try:
        logging.getLogger("somebody").info("said")
    finally:
        CURRENT_STREAM.set(None)
        CURRENT_ITEM_ID.set(None)
    [line] = lines()
    assert line.endswith(" INFO somebody: said method=StreamLocal stream_id=3 peer=unix: item_id=4")
