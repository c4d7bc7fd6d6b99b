"""Commands whose options are put together, not written out."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["own_parameters", "with_parameters"]


def own_parameters(command: Callable[..., object]) -> list[inspect.Parameter]:
    """Return the parameters that a command itself has, with their types."""
    return list(inspect.signature(command, eval_str=True).parameters.values())


def with_parameters(
    command: Callable[..., None], parameters: Sequence[inspect.Parameter], *, run: Callable[..., None]
) -> Callable[..., None]:
    """Return `run` as typer is to see it: named and described as `command`, with these parameters."""

    def described(**values: Any) -> None:
        run(**values)

    described.__doc__ = command.__doc__
    described.__name__ = command.__name__
    described.__annotations__ = {it.name: it.annotation for it in parameters}
    described.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what `inspect` asks for
    return described
