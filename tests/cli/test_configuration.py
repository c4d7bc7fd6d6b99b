"""The table of settings: how values are read, which one prevails, and what is made of them."""

from __future__ import annotations

import dataclasses
import enum
import operator
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from monopath.cli.configuration.build import build_settings, to_arguments, to_toml
from monopath.cli.configuration.kinds import Bytes, Choice, Kind, Names, Number, Seconds, Switch, Text, exact_bytes_text
from monopath.cli.configuration.places import Address, ExistingFile, Folder, NewFile, PresetFile, PresetFiles
from monopath.cli.configuration.readme import with_table
from monopath.cli.configuration.resolve import Resolution, Source, misspelt_variables, resolve
from monopath.cli.configuration.setting import DEFAULTS, Group, Setting
from monopath.cli.configuration.table import SETTINGS
from monopath.cli.configuration.toml import toml_text
from monopath_server.settings import Settings
from tests.cli.conftest import Monopath
from tests.support.processes import Finished

NOT_SETTINGS = {
    "max_device_scratch_bytes",
    "max_batch_items",
    "max_batch_patches",
    "stream_age_jitter",
    "refusal_drain_seconds",
    "refusal_drain_bytes",
    "presets",
}
"""Fields of `Settings` that have no row: tests and programs set them. `presets` is read from files that a row names."""


class Pace(enum.StrEnum):
    """An enum for a table of its own."""

    SLOW = enum.auto()
    FAST = enum.auto()


SWITCHED = Setting("dimmed", Switch(), "A switch in a table.", Group.SERVER, key="trial.dimmed", default=False)
PACE = Setting("pace", Choice(Pace), "A choice in a table.", Group.SERVER, key="trial.pace", default=Pace.SLOW)


@pytest.mark.parametrize(
    ("text", "value"), [("4096", 4096), ("64KiB", 65_536), ("64 kib", 65_536), ("1MiB", 1 << 20), ("512b", 512)]
)
def test_bytes_are_read_in_units(text: str, value: int) -> None:
    assert Bytes().from_text(text) == value
    assert Bytes().from_toml(text) == value
    assert Bytes().from_toml(value) == value


@pytest.mark.parametrize("text", ["", "KiB", "-1", "1.5MiB", "1MB", "\u0661", "99999999999999999999", "0", "2048GiB"])
def test_what_is_no_number_of_bytes_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^expected "):
        Bytes().from_text(text)


@pytest.mark.parametrize(
    ("size_bytes", "text"), [(0, "0 B"), (1536, "1536 B"), (3 << 19, "1536 KiB"), (1 << 30, "1 GiB")]
)
def test_bytes_are_written_without_a_loss(size_bytes: int, text: str) -> None:
    assert exact_bytes_text(size_bytes) == text
    assert Bytes(low=0).from_text(text) == size_bytes


@pytest.mark.parametrize(
    ("kind", "text", "complaint"),
    [
        (Number("N", 1, 9), "1.0", "expected a whole number, got '1.0'"),
        (Number("N", 1, 9), "10", "expected 1 to 9, got 10"),
        (Seconds(), "soon", "expected a number of seconds, got 'soon'"),
        (Seconds(), "nan", "expected 0 to 1e+09 seconds, got nan"),
        (Seconds(), "inf", "expected 0 to 1e+09 seconds, got inf"),
        (Choice(Pace), "", "expected one of slow, fast, got ''"),
        (Switch(), "2", "expected true or false, got '2'"),
        (Names("N"), "a,,b", "expected names, each once, got 'a,,b'"),
        (Names("N"), "a,a", "expected names, each once, got 'a,a'"),
        (Text("URL", "https?://.+", "http://host:port"), "x://a", "expected http://host:port, got 'x://a'"),
        (Address(may_be_socket=False), "unix:/a", "expected host:port, got 'unix:/a'"),
        (Address(), "host:65536", "expected a port from 0 to 65535, got 'host:65536'"),
        (NewFile(), "/nowhere/new", "there is no folder /nowhere"),
        (ExistingFile(), "/nowhere/old", "cannot read /nowhere/old: No such file or directory"),
        (Folder(), "/etc/hostname", "expected a folder that can be written to, got /etc/hostname"),
        (PresetFiles(), "a=", "expected NAME=FILE, got 'a='"),
    ],
)
def test_a_wrong_text_is_refused_with_what_was_expected(kind: Kind[Any], text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=r"^(expected|there is|cannot) ") as caught:
        kind.from_text(text)
    assert str(caught.value) == complaint


@pytest.mark.parametrize(
    ("kind", "value", "complaint"),
    [
        (Number("N", 1, 9), True, "expected a whole number, got true"),
        (Number("N", 1, 9), "3", 'expected a whole number, got "3"'),
        (Bytes(), 1.5, 'expected a number of bytes such as 65536, "64KiB", "16MiB", got 1.5'),
        (Seconds(), "3", 'expected a number of seconds, got "3"'),
        (Seconds(), False, "expected a number of seconds, got false"),
        (Choice(Pace), 1, "expected one of slow, fast, got 1"),
        (Switch(), "yes", 'expected true or false, got "yes"'),
        (Names("N"), "a,b", 'expected a list of names, got "a,b"'),
        (Names("N"), [1], "expected a list of names, got [1]"),
        (Text("URL", "https?://.+", "http://host:port"), 1, "expected http://host:port, got 1"),
        (Address(), 50051, "expected an address such as 127.0.0.1:50051, got 50051"),
        (NewFile(), {"a": 1}, 'expected a path, got {"a" = 1}'),
        (Folder(), "", 'expected a path, got ""'),
        (PresetFiles(), ["a=b"], 'expected a table of NAME = "FILE", got ["a=b"]'),
        (PresetFiles(), {"a": ""}, 'expected a table of NAME = "FILE", got {"a" = ""}'),
    ],
)
def test_a_wrong_type_in_a_file_is_refused_with_what_was_expected(
    kind: Kind[Any], value: object, complaint: str
) -> None:
    with pytest.raises(ValueError, match=r"^expected ") as caught:
        kind.from_toml(value)
    assert str(caught.value) == complaint


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_every_default_survives_a_file_and_a_command_line(setting: Setting) -> None:
    value = setting.default_value
    if value is None:
        return
    kind = setting.kind
    assert kind.from_toml(tomllib.loads(f"key = {kind.to_toml(value)}")["key"]) == value
    arguments = kind.to_arguments(setting.flag, value)
    if value == () or kind.is_switch:
        return
    assert kind.from_texts([argument.removeprefix(f"{setting.flag}=") for argument in arguments]) == value


def test_names_are_unique_and_every_field_of_the_settings_has_a_row() -> None:
    for attribute in ("name", "file_key", "sets"):
        used = [name for setting in SETTINGS if (name := getattr(setting, attribute))]
        assert len(used) == len(set(used))
    assert {setting.sets for setting in SETTINGS if setting.sets} == set(_fields(DEFAULTS)) - NOT_SETTINGS
    assert all(setting.help.endswith(".") for setting in SETTINGS)


def _fields(instance: Any, prefix: str = "") -> Iterator[str]:
    for field in dataclasses.fields(instance):
        value = getattr(instance, field.name)
        if dataclasses.is_dataclass(value):
            yield from _fields(value, f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}"


@pytest.mark.parametrize("setting", [setting for setting in SETTINGS if setting.sets], ids=lambda it: it.name)
def test_a_row_sets_its_field_and_no_other(setting: Setting) -> None:
    other = _another(setting)
    resolution = resolve({setting.name: setting.kind.to_text(other)}, {})
    assert resolution.faults == ()
    settings = build_settings(resolution.found.values(), DEFAULTS.presets)
    for field in _fields(DEFAULTS):
        read = operator.attrgetter(field)
        assert read(settings) == (other if field == setting.sets else read(DEFAULTS)), field


def _another(setting: Setting) -> Any:
    """Return a value that is right and is not the default."""
    default, kind = setting.default_value, setting.kind
    here = Path(__file__)
    match kind:
        case Switch():
            return not default
        case Choice():
            return next(option for option in kind.options if option != default)
        case Seconds():
            return default + 1
        case Number() | Bytes():
            return default + 1 if default < kind.high else default - 1
        case Folder():
            return here.parent
        case ExistingFile():
            return here
        case NewFile():
            return here.with_name("new")
        case Address():
            return "127.0.0.1:1"
        case Text():
            return "http://127.0.0.1:1"
        case _:
            raise AssertionError(kind)


def test_an_option_prevails_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text("workers = 1\nmax_streams = 1\ncache_bytes = 1\n")
    environment = {"MONOPATH_WORKERS": "2", "MONOPATH_MAX_STREAMS": "2", "MONOPATH_GRACE": ""}
    resolution = resolve({"workers": "3"}, environment, config)
    assert resolution.faults == ()
    found = [
        (name, resolution[name], resolution.found[name].source) for name in ("workers", "max_streams", "cache_bytes")
    ]
    assert found == [
        ("workers", 3, Source.FLAG),
        ("max_streams", 2, Source.ENVIRONMENT),
        ("cache_bytes", 1, Source.FILE),
    ]
    assert resolution.found["grace"].source is Source.DEFAULT
    assert [resolution.found[name].origin for name in ("workers", "max_streams", "cache_bytes", "grace")] == [
        "--workers",
        "MONOPATH_MAX_STREAMS",
        str(config),
        "",
    ]


def test_the_file_can_be_named_by_the_environment(tmp_path: Path) -> None:
    one, other = tmp_path / "one.toml", tmp_path / "other.toml"
    one.write_text("workers = 5\n")
    other.write_text("workers = 6\n")
    environment = {"MONOPATH_CONFIG": str(one)}
    assert resolve({}, environment)["workers"] == 5
    assert resolve({}, environment, other)["workers"] == 6


def test_paths_in_a_file_begin_at_its_folder(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        'ready_file = "ready.json"\nshared_memory_dir = "."\n[presets]\nmine = "mine.json"\nfar = "/far"\n'
    )
    resolution = resolve({}, {}, config)
    assert resolution.faults == ()
    assert resolution["ready_file"] == tmp_path / "ready.json"
    assert resolution["shared_memory_dir"] == tmp_path
    assert resolution["preset"] == (PresetFile("mine", tmp_path / "mine.json"), PresetFile("far", Path("/far")))


def test_keys_in_tables_are_read_and_written() -> None:
    table = (*SETTINGS, SWITCHED, PACE)
    resolution = resolve({"dimmed": True}, {"MONOPATH_PACE": "fast"}, settings=table)
    assert (resolution["dimmed"], resolution["pace"]) == (True, Pace.FAST)
    text = "\n".join(to_toml(resolution.found.values()))
    assert tomllib.loads(text)["trial"] == {"dimmed": True, "pace": "fast"}
    assert to_arguments(resolution.found.values(), {}) == ["--dimmed", "--pace=fast"]


def test_everything_that_is_wrong_is_said_at_once(monopath: Monopath, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        'max_image_byte = 3\ngrace = "long"\nworkers = 0\n[nowhere]\nunheard = 1\n[presets]\nx = "none.json"\n'
    )
    done = monopath("serve", "--config", config, "--workers", "2", "--cuda", "perhaps", "--max-streams", "0")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.splitlines() == [
        "--cuda: expected one of auto, required, off, interpreter, got 'perhaps'",
        "--max-streams: expected 1 to 1000000, got 0",
        f"{config}: max_image_byte: expected the key of a setting, got an unknown one; max_image_bytes is one",
        f'{config}: grace: expected a number of seconds, got "long"',
        f"{config}: workers: expected 1 to 4096, got 0",
        f"{config}: nowhere.unheard: expected the key of a setting, got an unknown one",
        f"preset x: cannot read {tmp_path / 'none.json'}: No such file or directory",
    ]


def test_files_and_what_does_not_go_together_are_checked_at_once_too(monopath: Monopath, tmp_path: Path) -> None:
    done = monopath("serve", "--check", "--preset", f"x={tmp_path}/x", "--processes", "2", "--address", "localhost:1")
    assert (done.exit_code, done.stdout) == (2, "")
    preset, address = done.stderr.splitlines()
    assert preset == f"preset x: cannot read {tmp_path}/x: No such file or directory"
    assert address.startswith("--address: expected an IP address such as 127.0.0.1")


def test_check_divides_the_processors_among_the_processes(monopath: Monopath) -> None:
    shown = [
        tomllib.loads(monopath("serve", "--check", "--processes", count, "--address", "127.0.0.1:0").stdout)["workers"]
        for count in ("1", "200")
    ]
    assert shown == [DEFAULTS.worker_count, 1]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "cannot be read: No such file or directory"),
        (b"a = ", "expected TOML, got a text that is none: Invalid value (at end of document)"),
        (b'a = "\xff"', "expected UTF-8 text, got other bytes"),
    ],
)
def test_a_file_that_is_none_is_refused(
    monopath: Monopath, tmp_path: Path, content: bytes | None, complaint: str
) -> None:
    config = tmp_path / "config.toml"
    if content is not None:
        config.write_bytes(content)
    assert monopath("serve", "--config", config) == Finished(2, "", f"{config}: {complaint}\n")


def test_check_writes_a_file_that_says_the_same_with_where_each_value_is_from(
    monopath: Monopath, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    config, again = tmp_path / "config.toml", tmp_path / "again.toml"
    config.write_text('cache_bytes = "7MiB"\n')
    monkeypatch.chdir(tmp_path)
    done = monopath("serve", "--check", "--config", config, "--max-streams=3", "--ready-file", 'a "quoted" name')
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert {
        f'cache_bytes = "7MiB"  # {config}',
        "max_streams = 3  # --max-streams",
        "max_image_side = 65535  # default",
    } <= set(lines)
    assert len([line for line in lines if line and not line.startswith("[")]) == len(SETTINGS)
    again.write_text(done.stdout)
    before = resolve({"max_streams": "3", "ready_file": str(tmp_path / 'a "quoted" name')}, {}, config)
    assert _values(resolve({}, {}, again)) == _values(before)


def test_the_command_line_of_a_child_says_the_same(tmp_path: Path) -> None:
    given = {"preset": [f"a={tmp_path / 'x y.json'}", "b=z"], "grace": "0.25", "cache_bytes": "7MiB", "cuda": "off"}
    resolution = resolve(given, {"MONOPATH_MAX_STREAMS": "3"})
    arguments = to_arguments(resolution.found.values(), {"processes": 1, "devices": None, "address": "unix:/x"})
    assert sorted(arguments) == [
        "--address=unix:/x",
        "--cache-bytes=7MiB",
        "--cuda=off",
        "--grace=0.25",
        "--max-streams=3",
        f"--preset=a={tmp_path / 'x y.json'}",
        "--preset=b=z",
        "--processes=1",
    ]


def test_check_passes_an_address_in_use_and_refuses_one_that_cannot_be(monopath: Monopath, tmp_path: Path) -> None:
    assert monopath("serve", "--check", "--address", "127.0.0.1:0").exit_code == 0
    done = monopath("serve", "--check", "--address", f"unix:{tmp_path}/none/socket")
    assert done == Finished(
        2, "", f"Cannot listen at unix:{tmp_path}/none/socket: there is no folder {tmp_path}/none\n"
    )


def test_a_variable_that_is_nearly_one_of_ours_is_noted_and_those_of_others_are_not() -> None:
    names = ["MONOPATH_MAX_STREAM", "MONOPATH_SERVER", "MONOPATH_PORT", "MONOPATH_SERVICE_HOST", "MONOPATH_WORKERS"]
    assert list(misspelt_variables(names)) == [
        "MONOPATH_MAX_STREAM: no setting has this variable; MONOPATH_MAX_STREAMS is one"
    ]


def test_help_has_every_setting_under_its_heading(monopath: Monopath) -> None:
    shown = monopath("serve", "--help").stdout
    places = [shown.index(f"\n{group}:\n") for group in Group]
    assert places == sorted(places)
    for setting in SETTINGS:
        assert re.search(f"^  {setting.flag}( |$)", shown, re.MULTILINE)
        assert f"env var: {setting.variable}; default: {setting.default_shown}]" in " ".join(shown.split())


def test_a_text_without_the_marks_gets_no_table() -> None:
    with pytest.raises(ValueError, match="Expected the lines"):
        with_table("# monopath\n")


@pytest.mark.parametrize("text", ["plain", 'a "b" \\ \n \t \x7f \x01', "\N{SNOWMAN}"])
def test_any_text_can_be_written_as_toml(text: str) -> None:
    assert tomllib.loads(f"key = {toml_text(text)}") == {"key": text}


def test_the_settings_have_the_presets_that_they_are_given() -> None:
    settings = build_settings(resolve({}, {}).found.values(), {})
    assert settings == dataclasses.replace(Settings(), presets={})


def _values(resolution: Resolution) -> dict[str, object]:
    assert resolution.faults == ()
    return {name: found.value for name, found in resolution.found.items()}
