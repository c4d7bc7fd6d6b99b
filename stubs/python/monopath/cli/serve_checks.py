"""What `monopath serve` is about to run, checked as a whole: settings, preset files, processes and devices."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from monopath.cli.configuration.build import build_settings
from monopath.cli.configuration.resolve import Resolution
from monopath.cli.configuration.setting import DEFAULTS
from monopath.cli.faults import UserFault
from monopath.cli.serve_many import plan_processes, with_shared_processors
from monopath.cli.serve_presets import read_presets
from monopath.cli.telemetry_checks import check_telemetry
from monopath_server.security.settings import SecurityError, SecuritySettings, check_security
from monopath_server.settings import Settings
from monopath_server.supervision.replica import ReplicaPlan

__all__ = ["Checked", "WrongSettings", "check_settings"]


class WrongSettings(UserFault):
    """Settings that cannot be run with."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)
        """Each thing that is wrong, in one line or several."""


@dataclass(frozen=True, slots=True)
class Checked:
    """Settings that hold, and what is to run with them."""

    resolution: Resolution
    settings: Settings
    plans: Sequence[ReplicaPlan]
    """How to start each process; none where this one serves."""

    @property
    def addresses(self) -> list[str]:
        """Where this process, or each of the others, is to listen."""
        return [plan.address for plan in self.plans] or [self.settings.address]

    @property
    def listening_addresses(self) -> list[str]:
        """The same, and where this process tells of itself; of several processes each looks for its own."""
        metrics_address = None if self.plans else self.settings.telemetry.metrics_address
        return [*self.addresses, *filter(None, [metrics_address])]


def check_settings(resolution: Resolution, environment: Mapping[str, str]) -> Checked:
    """Read what the settings name and hold them against each other.

    Raises:
        WrongSettings: with everything that is wrong.
    """
    faults = list(resolution.faults)
    presets, preset_faults = read_presets(resolution["preset"] if "preset" in resolution.found else ())
    faults += preset_faults
    plans: Sequence[ReplicaPlan] = ()
    if not resolution.faults:
        try:
            plans = plan_processes(resolution, environment)
        except UserFault as fault:
            faults.append(fault.text)
    if faults:
        raise WrongSettings(faults)
    resolution = with_shared_processors(resolution, len(plans) or 1)
    try:
        settings = build_settings(resolution.found.values(), {**DEFAULTS.presets, **presets})
        settings = replace(settings, telemetry=check_telemetry(settings.telemetry, environment))
    except ValueError as error:
        raise WrongSettings([str(error)]) from None
    checked = Checked(resolution, settings, plans)
    _check_security(checked)
    return checked


def _check_security(checked: Checked) -> None:
    """Each process would say it, too late for who wants all that is wrong at once."""
    check: Callable[[str, SecuritySettings], object] = check_security
    # Where only the client is installed nobody can serve, and what the files hold remains unseen.
    with contextlib.suppress(ModuleNotFoundError):
        from monopath_server.serving.listener import Listener

        check = Listener
    faults: list[str] = []
    for address in checked.addresses:
        try:
            check(address, checked.settings.security)
        except SecurityError as error:
            faults.append(str(error))
    if faults:
        raise WrongSettings(list(dict.fromkeys(faults)))
