"""No adapter puts features together that do not belong together, and digests tell features apart."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from monopath import ItemError, PreprocessingPath, Ready, Result, Size, concatenate
from monopath.adapters import safetensors, sglang, smg, torch, vllm
from monopath.adapters.digests import feature_digest, media_digest
from monopath.prompts import ImageRange
from tests.adapters.conftest import Make
from tests.adapters.handmade import failed, handmade

TWO = [ImageRange(0, 1), ImageRange(5, 1)]

WITH_READY: dict[str, Callable[[Sequence[Result[Any]], Ready], object]] = {
    "sglang items": lambda results, ready: sglang.item_fields(results, ready),
    "sglang processor output": lambda results, ready: sglang.processor_output(results, ready),
    "vllm": lambda results, ready: vllm.multimodal_inputs(results, ready),
    "smg for vllm": lambda results, ready: smg.vllm_inputs(results, ready, TWO),
    "smg for sglang": lambda results, ready: smg.sglang_inputs(results, ready, TWO),
    "smg for tokenspeed": lambda results, ready: smg.tokenspeed_inputs(results, ready, TWO),
}
ALONE: dict[str, Callable[[Sequence[Result[Any]]], object]] = {
    "numpy": concatenate,
    "torch": torch.batch,
    "safetensors": safetensors.dumps,
}
ADAPTERS: dict[str, Callable[[Sequence[Result[Any]], Ready], object]] = {
    **WITH_READY,
    **{name: (lambda results, _ready, adapter=adapter: adapter(results)) for name, adapter in ALONE.items()},  # type: ignore[misc]
}


@pytest.mark.parametrize("name", ADAPTERS)
@pytest.mark.parametrize(
    "other",
    [
        {"path": PreprocessingPath.DEFERRED_CUDA},
        {"path": PreprocessingPath.LOCAL},
        {"config_sha256": b"d" * 32},
        {"array": np.zeros((4, 3, 2, 2), np.float16)},
    ],
    ids=["cuda", "local", "config", "element type"],
)
def test_a_mixed_batch_is_refused(name: str, other: dict[str, Any], make: Make) -> None:
    ready = make("kimi-k3").ready
    with pytest.raises(ValueError, match="Expected results of one path, config and element type, got"):
        ADAPTERS[name]([handmade(), handmade(item_id=2, **other)], ready)


@pytest.mark.parametrize("name", ADAPTERS)
def test_no_results_and_failed_ones_are_refused(name: str, make: Make) -> None:
    made = make("kimi-k3")
    with pytest.raises(ValueError, match="at least one result"):
        ADAPTERS[name]([], made.ready)
    with pytest.raises(ItemError, match="no image"):
        ADAPTERS[name]([made.results[0], failed()], made.ready)


@pytest.mark.parametrize("name", WITH_READY)
def test_results_of_another_stream_than_the_openings_are_refused(name: str, make: Make) -> None:
    with pytest.raises(ValueError, match="Expected results of the config"):
        WITH_READY[name](make("kimi-k3").results[:2], make("kimi-k2.5").ready)


def test_equal_images_have_equal_digests_on_both_deferred_paths() -> None:
    first, second = handmade(), handmade(path=PreprocessingPath.DEFERRED_CUDA, item_id=9)
    assert media_digest(first) == media_digest(second)
    assert len(media_digest(first)) == 32


@pytest.mark.parametrize(
    "other",
    [
        {"content_sha256": b"j" * 32},
        {"config_sha256": b"d" * 32},
        {"array": np.zeros((4, 3, 2, 2), np.float16)},
        {"original_size": Size(4, 5)},
    ],
    ids=["content", "config", "element type", "size"],
)
def test_images_that_may_differ_have_different_digests(other: dict[str, Any]) -> None:
    assert media_digest(handmade()) != media_digest(handmade(**other))


def test_what_a_local_client_declares_is_not_believed() -> None:
    """Else one could have another's image answered from an engine's cache with features of its own."""
    honest, liar = (
        handmade(path=PreprocessingPath.LOCAL, array=np.full((4, 3, 2, 2), value, np.float32)) for value in (0, 1)
    )
    assert honest.provenance.content_sha256 == liar.provenance.content_sha256
    assert media_digest(honest) != media_digest(liar)
    assert media_digest(honest) == feature_digest(honest) != media_digest(handmade())


def test_a_real_servers_digests_tell_images_apart_and_know_them_again(make: Make) -> None:
    first, again = make("kimi-k3"), make("kimi-k3")
    digests = [media_digest(result) for result in first.results]
    assert len(set(digests)) == len(first.results)
    assert [media_digest(result) for result in again.results] == digests


def test_importing_adapters_imports_no_engine_and_no_torch() -> None:
    program = (
        "import sys\n"
        "from monopath import adapters, prompts\n"
        "from monopath.adapters import digests, dlpack, safetensors, sglang, smg, vllm\n"
        "heavy = {'torch', 'PIL', 'vllm', 'sglang', 'safetensors', 'monopath_server'} & set(sys.modules)\n"
        "sys.exit(f'Expected none of these, got {heavy}' if heavy else 0)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_a_missing_package_is_told_with_its_extra() -> None:
    program = (
        "import sys\n"
        "sys.modules['smg_grpc_proto'] = None\n"
        "try:\n"
        "    import monopath.adapters.smg\n"
        "except ImportError as error:\n"
        "    print(error)"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "Expected the package smg-grpc-proto, got none: pip install 'monopath[smg]'\n"
