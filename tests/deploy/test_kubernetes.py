"""The manifests are valid, refer to what there is, start a server that exists, and give it time to stop."""

from __future__ import annotations

from typing import Any

import jsonschema
import kubernetes_validate
import pytest

from monopath.v1 import service_pb2
from monopath_server.serving.health import LIVENESS_NAME, SERVICE_NAME
from tests.deploy.manifests import Container, containers, manifests, pod_specs
from tests.deploy.serve_arguments import parse_serve, stopping_seconds

OLDEST, NEWEST = "1.33", "1.37"
SERVERS = [container for container in containers() if container.serves]
EACH_SERVER = pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.manifest)
PROCESS_BYTES = 512 << 20
"""What a server has without any item: the interpreter, its libraries, compiled kernels."""

ROUTE_SCHEMA = {
    "type": "object",
    "required": ["apiVersion", "kind", "metadata", "spec"],
    "additionalProperties": False,
    "properties": {
        "apiVersion": {"const": "gateway.networking.k8s.io/v1"},
        "kind": {"const": "GRPCRoute"},
        "metadata": {"type": "object", "required": ["name"]},
        "spec": {
            "type": "object",
            "additionalProperties": False,
            "required": ["parentRefs", "rules"],
            "properties": {
                "parentRefs": {"type": "array", "minItems": 1, "items": {"type": "object", "required": ["name"]}},
                "rules": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": 16,
                    "items": {
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["matches", "backendRefs"],
                        "properties": {
                            "matches": {
                                "type": "array",
                                "items": {
                                    "type": "object",
                                    "additionalProperties": False,
                                    "required": ["method"],
                                    "properties": {
                                        "method": {
                                            "type": "object",
                                            "additionalProperties": False,
                                            "required": ["type", "service"],
                                            "properties": {
                                                # The other type is up to each implementation.
                                                "type": {"const": "Exact"},
                                                "service": {"type": "string"},
                                                "method": {"type": "string"},
                                            },
                                        }
                                    },
                                },
                            },
                            "backendRefs": {
                                "type": "array",
                                "minItems": 1,
                                "items": {
                                    "type": "object",
                                    "additionalProperties": False,
                                    "required": ["name", "port"],
                                    "properties": {"name": {"type": "string"}, "port": {"type": "integer"}},
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}
"""What a GRPCRoute may have of what we use: a part of the Gateway API's own schema, which no package here brings."""


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
def test_every_manifest_is_valid(version: str) -> None:
    for manifest in manifests():
        if manifest["kind"] == "GRPCRoute":
            jsonschema.validate(manifest, ROUTE_SCHEMA)
        else:
            assert kubernetes_validate.validate(manifest, version, strict=True) == version


def test_a_misspelt_field_is_found() -> None:
    [service, *_] = manifests("Service")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**service, "spec": {**service["spec"], "clusterIp": "None"}}, NEWEST, strict=True)


def test_the_kinds_are_those_that_were_asked_for() -> None:
    for name in ("monopath-cpu", "monopath-cuda"):
        kinds = {manifest["kind"] for manifest in manifests() if manifest["metadata"]["name"] == name}
        assert kinds == {"Service", "Deployment", "PodDisruptionBudget", "HorizontalPodAutoscaler"}


def test_selectors_find_the_pods() -> None:
    deployments = {manifest["metadata"]["name"]: manifest["spec"] for manifest in manifests("Deployment")}
    for spec in deployments.values():
        assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]
    for service in manifests("Service"):
        spec = deployments[service["metadata"]["name"]]
        assert service["spec"]["selector"] == spec["selector"]["matchLabels"]
        assert service["spec"]["clusterIP"] == "None"
        [port] = service["spec"]["ports"]
        [server] = spec["template"]["spec"]["containers"]
        assert {"name": port["targetPort"], "containerPort": port["port"]} in server["ports"]
    for budget in manifests("PodDisruptionBudget"):
        assert budget["spec"]["selector"] == deployments[budget["metadata"]["name"]]["selector"]
    for scaler in manifests("HorizontalPodAutoscaler"):
        assert scaler["spec"]["scaleTargetRef"]["name"] in deployments
        [metric] = scaler["spec"]["metrics"]
        assert metric["pods"]["metric"]["name"] == "monopath_items_in_flight"


def test_the_route_names_methods_and_services_that_exist() -> None:
    service = service_pb2.DESCRIPTOR.services_by_name["PreprocessingService"]
    services = {manifest["metadata"]["name"]: manifest["spec"] for manifest in manifests("Service")}
    [route] = manifests("GRPCRoute")
    found = {}
    for rule in route["spec"]["rules"]:
        [match], [backend] = rule["matches"], rule["backendRefs"]
        assert match["method"]["service"] == service.full_name
        assert backend["port"] in [port["port"] for port in services[backend["name"]]["ports"]]
        found[match["method"].get("method", "")] = backend["name"]
    assert found == {"StreamDeferredCuda": "monopath-cuda", "": "monopath-cpu"}
    assert set(found) - {""} <= {method.name for method in service.methods}


@EACH_SERVER
def test_a_server_understands_its_arguments_and_has_time_to_stop(server: Container) -> None:
    values = parse_serve(server.spec["args"][1:], server.environment)
    assert server.pod["terminationGracePeriodSeconds"] > stopping_seconds(values)
    assert values["workers"] == int(server.spec["resources"]["requests"]["cpu"])
    listens = {port["containerPort"] for port in server.spec.get("ports", [])}
    if not values["address"].startswith("unix:"):
        assert int(values["address"].rpartition(":")[2]) in listens
        # A client is told where the server went before the server stops taking streams.
        probe = server.spec["readinessProbe"]
        assert values["lame_duck"] > probe["periodSeconds"] * probe["failureThreshold"]


@EACH_SERVER
def test_a_server_has_memory_for_what_it_allows(server: Container) -> None:
    values = parse_serve(server.spec["args"][1:], server.environment)
    budgets = sum(
        values[name] for name in ("max_process_bytes", "idle_buffer_bytes", "cache_bytes", "max_shared_memory_bytes")
    )
    decoding = 4 * values["max_image_pixels"] * values["workers"]
    assert _bytes(server.spec["resources"]["limits"]["memory"]) > budgets + decoding + PROCESS_BYTES


@EACH_SERVER
def test_probes_ask_for_names_that_the_server_has(server: Container) -> None:
    probes = {name: probe for name, probe in server.spec.items() if name.endswith("Probe")}
    names = {name: probe["grpc"]["service"] for name, probe in probes.items() if "grpc" in probe}
    expected = {"startupProbe": LIVENESS_NAME, "readinessProbe": SERVICE_NAME, "livenessProbe": LIVENESS_NAME}
    if "exec" in probes["startupProbe"]:
        assert names == {}
        ready_file = parse_serve(server.spec["args"][1:], server.environment)["ready_file"]
        assert probes["startupProbe"]["exec"]["command"] == ["test", "-e", str(ready_file)]
    else:
        assert names == expected
        assert {probe["grpc"]["port"] for probe in probes.values()} == {50051}


@pytest.mark.parametrize(("name", "pod"), pod_specs())
def test_pods_are_restricted(name: str, pod: dict[str, Any]) -> None:
    """By the restricted profile of the Pod Security Standards, and with a root that is read-only."""
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert all(set(volume) == {"name", "emptyDir"} for volume in pod["volumes"])
    for container in containers():
        if container.manifest == name:
            assert container.spec["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert "memory" in container.spec["resources"]["limits"]


def test_a_sidecar_and_its_client_meet_in_memory() -> None:
    [server] = [server for server in SERVERS if server.manifest == "encoder"]
    [client] = [each for each in containers() if each.manifest == "encoder" and each.spec["name"] == "encoder"]
    values = parse_serve(server.spec["args"][1:], server.environment)
    memory = server.volume_of[str(values["shared_memory_dir"])]
    assert memory == client.volume_of["/dev/shm"]
    assert memory["emptyDir"]["medium"] == "Memory"
    assert _bytes(memory["emptyDir"]["sizeLimit"]) >= values["max_shared_memory_bytes"] * 5 // 4
    assert client.environment["MONOPATH_SERVER"] == values["address"]
    folder = values["address"].removeprefix("unix:").rpartition("/")[0]
    assert server.volume_of[folder] == client.volume_of[folder]
    assert server.spec["restartPolicy"] == "Always"


def _bytes(quantity: str) -> int:
    units = {"Mi": 1 << 20, "Gi": 1 << 30}
    return int(quantity[:-2]) * units[quantity[-2:]]
