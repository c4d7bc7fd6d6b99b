"""Values as TOML writes them; Python's standard library only reads it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["toml_text"]


def toml_text(value: object) -> str:
    """Write a value on one line, as TOML has it. What TOML has no form for is written as its type's name."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case str() | Path():
            return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
        case Mapping():
            return "{" + ", ".join(f"{toml_text(key)} = {toml_text(inner)}" for key, inner in value.items()) + "}"
        case Sequence():
            return f"[{', '.join(map(toml_text, value))}]"
        case _:
            return f"a {type(value).__name__}"
