"""The Kubernetes manifests of `server/deploy`, read."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

__all__ = ["FOLDER", "Container", "containers", "manifests", "pod_specs"]

FOLDER = Path(__file__).parents[2] / "server" / "deploy" / "kubernetes"


@dataclass(frozen=True, slots=True)
class Container:
    """One container, and the pod it is in."""

    manifest: str
    spec: dict[str, Any]
    pod: dict[str, Any]

    @property
    def serves(self) -> bool:
        """Whether it runs `monopath serve`."""
        return "serve" in self.spec.get("args", [])

    @property
    def environment(self) -> dict[str, str]:
        """Its variables, with those that come from its resources filled in."""
        found = {}
        for variable in self.spec.get("env", []):
            if "value" in variable:
                found[variable["name"]] = variable["value"]
            else:
                kind, _, name = variable["valueFrom"]["resourceFieldRef"]["resource"].partition(".")
                found[variable["name"]] = self.spec["resources"][kind][name]
        return found

    @property
    def volume_of(self) -> dict[str, dict[str, Any]]:
        """The pod's volume at each path."""
        volumes = {volume["name"]: volume for volume in self.pod.get("volumes", [])}
        return {mount["mountPath"]: volumes[mount["name"]] for mount in self.spec.get("volumeMounts", [])}


def manifests(kind: str = "") -> list[dict[str, Any]]:
    """Return all objects, or those of one kind."""
    documents = [
        document for file in sorted(FOLDER.glob("*.yaml")) for document in yaml.safe_load_all(file.read_text("utf-8"))
    ]
    assert documents
    return [document for document in documents if kind in ("", document["kind"])]


def pod_specs() -> list[tuple[str, dict[str, Any]]]:
    """Return each pod's manifest name and spec."""
    return [
        (deployment["metadata"]["name"], deployment["spec"]["template"]["spec"])
        for deployment in manifests("Deployment")
    ]


def containers() -> list[Container]:
    """Return every container of every pod."""
    return [
        Container(name, spec, pod)
        for name, pod in pod_specs()
        for spec in [*pod.get("initContainers", []), *pod["containers"]]
    ]
