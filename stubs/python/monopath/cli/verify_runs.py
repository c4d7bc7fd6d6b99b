"""Which images `monopath verify` streams on which path, under which config, resize arithmetic and element type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from monopath import DataType, PreprocessingPath, ResampleKernel
from monopath.cli.faults import needs_server
from monopath.cli.verify_configs import CheckedConfig
from monopath.cli.verify_images import Subject

try:
    from monopath_server.reference import reference_plan
except ModuleNotFoundError as error:
    raise needs_server("`monopath verify`", error) from None

__all__ = ["Group", "Run", "Scope", "Setting", "crossed", "planned_groups"]

_MAX_INTERPRETED_PIXELS = 20_000
"""The interpreter takes tens of seconds for each image that is much larger."""


@dataclass(frozen=True, slots=True)
class Setting:
    """All that decides the bytes of an image's features, whatever the path."""

    config: CheckedConfig
    kernel: ResampleKernel
    data_type: DataType


@dataclass(frozen=True, slots=True)
class Run:
    """One stream."""

    path: PreprocessingPath
    setting: Setting
    subjects: tuple[Subject, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Streams that share their references: those of one config and one resize arithmetic."""

    config: CheckedConfig
    kernel: ResampleKernel
    runs: tuple[Run, ...]

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """Every image of the group, once."""
        return tuple({subject.index: subject for run in self.runs for subject in run.subjects}.values())


@dataclass(frozen=True, slots=True)
class Scope:
    """What the command line asks for."""

    subjects: Sequence[Subject]
    is_generated: bool
    paths: Sequence[PreprocessingPath]
    configs: Sequence[CheckedConfig]
    kernels: Sequence[ResampleKernel]
    data_types: Sequence[DataType]
    is_interpreted: bool = False

    def kernels_of(self, config: CheckedConfig) -> list[ResampleKernel]:
        """Return what was asked for, without the arithmetics that the config's family does not have."""
        return [kernel for kernel in self.kernels if kernel in config.kernels]

    def settings(self) -> list[Setting]:
        """Return all settings, in the order of the table."""
        return [
            Setting(config, kernel, data_type)
            for config in self.configs
            for kernel in self.kernels_of(config)
            for data_type in self.data_types
        ]


def planned_groups(scope: Scope) -> list[Group]:
    """Return all streams, without those that would have no image.

    Files go through every setting. So do images of the built-in set, but for savings: one that a config does not resize
    takes one order of the resize instead of all; LOCAL, which makes no features of its own, the interpreter, which is
    very slow, and families that resize nearly every image take the crossed selection.
    """
    selections = {path: _selection(scope, path) for path in scope.paths}
    groups = []
    for config in scope.configs:
        for kernel in scope.kernels_of(config):
            runs = tuple(
                Run(path, setting, tuple(subjects))
                for path in scope.paths
                for data_type in scope.data_types
                if (subjects := selections[path].get(setting := Setting(config, kernel, data_type)))
            )
            if runs:
                groups.append(Group(config, kernel, runs))
    return groups


def _selection(scope: Scope, path: PreprocessingPath) -> Mapping[Setting, Sequence[Subject]]:
    if not scope.is_generated:
        return dict.fromkeys(scope.settings(), scope.subjects)
    if scope.is_interpreted:
        return crossed([subject for subject in scope.subjects if _is_quick(subject)], _crossed_settings(scope))
    if path is PreprocessingPath.LOCAL:
        return crossed(scope.subjects, _crossed_settings(scope))
    return _thorough(scope)


def _is_quick(subject: Subject) -> bool:
    return subject.size_px is None or subject.size_px[0] * subject.size_px[1] <= _MAX_INTERPRETED_PIXELS


def _thorough(scope: Scope) -> Mapping[Setting, Sequence[Subject]]:
    selection: dict[Setting, Sequence[Subject]] = {}
    for config in scope.configs:
        if config.resizes_most:
            continue
        kernels = scope.kernels_of(config)
        resized = {subject.index for subject in scope.subjects if _is_resized(subject, config)}
        for turn, kernel in enumerate(kernels):
            subjects = [
                subject
                for subject in scope.subjects
                # Where nothing is resized the order is nothing either; images take turns, so that each order has some.
                if subject.index in resized or subject.index % len(kernels) == turn
            ]
            selection.update({Setting(config, kernel, data_type): subjects for data_type in scope.data_types})
    crossing = [setting for setting in scope.settings() if setting.config.resizes_most]
    return {**selection, **crossed(scope.subjects, crossing)}


def _is_resized(subject: Subject, config: CheckedConfig) -> bool:
    """Whether an image is resized under a config; also where that is not known."""
    if subject.size_px is None:
        return True
    try:
        plan = reference_plan(config.reference(ResampleKernel.PILLOW_13), *subject.size_px)
    except ValueError:
        return True
    return plan.resized_size != plan.original_size


def _crossed_settings(scope: Scope) -> list[Setting]:
    """Return the settings that a kind of image is crossed with.

    Small limits have all orders, and so have families that enlarge. Other released limits resize no small image, so
    there each element type has one order.
    """
    thorough = [setting for setting in scope.settings() if setting.config.is_small or setting.config.resizes_most]
    single = [
        Setting(config, kernels[(number + turn) % len(kernels)], data_type)
        for turn, config in enumerate(config for config in scope.configs if not config.is_small)
        if not config.resizes_most and (kernels := scope.kernels_of(config))
        for number, data_type in enumerate(scope.data_types)
    ]
    return thorough + single


def crossed(subjects: Sequence[Subject], settings: Sequence[Setting]) -> dict[Setting, Sequence[Subject]]:
    """Return images for each setting: one of every kind, each time in another size.

    Where there are more settings than sizes of a kind, the sizes come again, shifted, so that no size always meets the
    same element type.
    """
    kinds: dict[str, list[Subject]] = {}
    for subject in subjects:
        kinds.setdefault(subject.kind, []).append(subject)
    selection: dict[Setting, Sequence[Subject]] = {}
    for number, setting in enumerate(settings):
        selection[setting] = [
            sizes[(first + number + number // len(sizes)) % len(sizes)] for first, sizes in enumerate(kinds.values())
        ]
    return selection
