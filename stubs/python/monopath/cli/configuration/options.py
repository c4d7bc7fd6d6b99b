"""The table's rows as options of a command."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from monopath.cli.configuration.setting import Group, Setting
from monopath.cli.configuration.table import SETTINGS
from monopath.cli.signatures import own_parameters, with_parameters

__all__ = ["GroupedCommand", "with_settings"]


def with_settings(command: Callable[..., None], settings: Sequence[Setting] = SETTINGS) -> Callable[..., None]:
    """Give a command an option for each setting, before those of its own.

    The command gets them as keyword arguments by the settings' names, as they were given and unread: a text, a list of
    texts, a bool, or None. So everything wrong, wherever it is from, can be said at once.
    """
    parameters = [
        *(
            inspect.Parameter(
                setting.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_annotation(setting)
            )
            for setting in settings
        ),
        *(it for it in own_parameters(command) if it.kind is not inspect.Parameter.VAR_KEYWORD),
    ]
    return with_parameters(command, parameters, run=command)


class GroupedCommand(TyperCommand):
    """A command whose help lists its options under headings."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options of each group, then the others."""
        for title, records in self._groups(ctx):
            with formatter.section(title):
                formatter.write_dl(records)

    def _groups(self, ctx: Any) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        records: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                records.setdefault(getattr(parameter, "rich_help_panel", None) or "Other options", []).append(record)
        titles = [*Group, *(title for title in records if title not in {*Group})]
        yield from ((title, records[title]) for title in titles if title in records)


def _annotation(setting: Setting) -> Any:
    given: Any = str | None
    if setting.kind.is_switch:
        given = bool | None
    elif setting.kind.may_repeat:
        given = list[str] | None
    # The environment is read with the file, by `resolve`; of it and of the default, typer only has to tell.
    facts = f"[env var: {setting.variable}; default: {setting.default_shown}]"
    names = [setting.flag, f"--no-{setting.flag[2:]}"] if setting.kind.is_switch else [setting.flag]
    return Annotated[
        given,
        typer.Option(
            "/".join(names),
            metavar=setting.kind.metavar or None,
            help=f"{setting.help}  {facts}",
            show_default=False,
            rich_help_panel=setting.group,
        ),
    ]
