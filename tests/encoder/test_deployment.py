"""The processes together: two ranks give what one gives, by every path, whatever is cached and whoever is killed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
import pytest_asyncio

from examples.encoder.callers import Encoders
from examples.encoder.faults import ConfigDiffers
from examples.encoder.messages import FEATURES, IMAGES, Embedding, Failure, Request
from examples.encoder.sources import EncodedImage, FinishedFeatures
from examples.encoder.wire import Peer
from monopath import AsyncClient, DataType, GridThw
from monopath.cli.local_features import FeatureMaker
from tests.encoder.deployment import PRESET, Deployment, deployment
from tests.encoder.soak import KILLED_IN_TURN, picture, soak
from tests.support.processes import REPOSITORY, SOURCE_PATHS

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(400)]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def running(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deployment]:
    """All processes. They end in order, silently, and leave nothing in shared memory."""
    folder = tmp_path_factory.mktemp("encoder")
    async with deployment(folder) as found:
        yield found
    assert found.errors() == ""
    assert {process.exit_codes[-1] for process in found.processes.values()} == {0}
    assert list((folder / "shm").iterdir()) == []


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def maker(running: Deployment) -> FeatureMaker:
    """Makes features as the gateway does."""
    async with AsyncClient(running.preprocessing) as client, client.local(preset=PRESET, data_type="float32") as stream:
        return FeatureMaker(stream.ready, DataType.FLOAT32)


async def test_two_ranks_and_a_gateway_give_what_one_rank_gives(running: Deployment) -> None:
    outcome = await soak(running, 60, seed=5)
    assert outcome.complaints == []
    assert outcome.answered_count == 60
    assert outcome.mixed_batch_count == 0
    assert set(outcome.batches) == {("DEFERRED_CPU",), ("LOCAL",)}
    assert outcome.partly_cached_count > 0
    assert set(outcome.outcomes) == {"embedding", "IMAGE_DAMAGED", "IMAGE_UNSUPPORTED"}


async def test_processes_that_are_killed_lose_no_request(running: Deployment) -> None:
    outcome = await soak(running, 60, seed=6, kills=KILLED_IN_TURN)
    assert outcome.complaints == []
    assert outcome.answered_count >= 60
    assert outcome.mixed_batch_count == 0
    assert outcome.kills == list(KILLED_IN_TURN)
    assert [running.processes[name].exit_codes for name in KILLED_IN_TURN] == [[-9]] * len(KILLED_IN_TURN)


async def test_ranks_own_what_the_plan_says_and_remember_it(running: Deployment) -> None:
    images = [picture(side_px, side_px, 1000 + side_px) for side_px in (100, 40, 90, 60)]
    async with Encoders(running.ranks) as ranks, AsyncClient(running.preprocessing) as client:
        plan = await client.plan([(100, 100), (40, 40), (90, 90), (60, 60)], preset=PRESET, encoder_rank_count=2)
        for cached in (False, True):
            reply = await ranks.encode_images(images)
            got = [(outcome.rank, outcome.cached) for outcome in reply.outcomes if isinstance(outcome, Embedding)]
            assert got == [(planned.encoder_rank, cached) for planned in plan.images]
            assert len(reply.batches) == (0 if cached else 2)


async def test_a_bad_image_fails_alone_with_the_same_reason_by_every_path(running: Deployment) -> None:
    images = [b"", picture(50, 50, 1)[:300], picture(70, 30, 2), b"no image"]
    async with Encoders(running.ranks) as ranks, Encoders([running.gateway]) as gateway:
        deferred, local = await ranks.encode_images(images), await gateway.encode_images(images)
    reasons = ["IMAGE_EMPTY", "IMAGE_DAMAGED", None, "IMAGE_UNSUPPORTED"]
    for reply in (deferred, local):
        assert [getattr(outcome, "reason", None) for outcome in reply.outcomes] == reasons


async def test_features_that_contradict_their_plan_fail_alone(running: Deployment, maker: FeatureMaker) -> None:
    good = maker.features(picture(56, 112, 3), "")
    sources = [FinishedFeatures(replace(good, grid_thw=GridThw(1, 4, 8))), FinishedFeatures(good)]
    async with Encoders(running.ranks) as ranks:
        wrong, right = (await ranks.encode(FEATURES, Request(sources))).outcomes
    assert isinstance(wrong, Failure)
    assert wrong.reason == "FEATURES_MISMATCH"
    assert isinstance(right, Embedding)


async def test_features_of_another_config_are_not_encoded(running: Deployment, maker: FeatureMaker) -> None:
    features = FinishedFeatures(maker.features(picture(56, 112, 3), ""))
    async with Encoders(running.ranks) as ranks:
        with pytest.raises(ConfigDiffers, match=r"Expected features of config [0-9a-f]{12}, got 0101"):
            await ranks.encode(FEATURES, Request([features], b"\x01" * 32))


async def test_a_share_of_another_config_is_not_encoded(running: Deployment) -> None:
    async with Peer(running.ranks[0]) as rank:
        with pytest.raises(ConfigDiffers):
            await rank.encode_share(IMAGES, Request([EncodedImage(picture(40, 40, 77))], b"\x01" * 32))


async def test_the_command_line_tells_what_came_of_each_image(running: Deployment, tmp_path: Path) -> None:
    files = [tmp_path / "good.png", tmp_path / "bad.png"]
    files[0].write_bytes(picture(90, 60, 4))
    files[1].write_bytes(b"no image")
    lines = []
    for address in (running.gateway, running.single):
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "examples.encoder", "encode", *map(str, files), "--address", address),
            cwd=REPOSITORY,
            env={"PYTHONPATH": SOURCE_PATHS, "PATH": ""},
            stdout=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(60):
            written, _ = await process.communicate()
        assert process.returncode == 0
        lines.append(written.decode().splitlines())
    assert lines[0][0].startswith(f"{files[0]}: (12, 96) rank ")
    assert lines[0][0].split()[-1] == lines[1][0].split()[-1]
    assert lines[0][1] == lines[1][1]
    assert "IMAGE_UNSUPPORTED" in lines[0][1]
