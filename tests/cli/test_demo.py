"""The demo notices what is wrong."""

from __future__ import annotations

import io

import pytest
from PIL import Image

from monopath import Client, DataType, PreprocessingPath
from monopath.cli.faults import ExitCode
from tests.demo import __main__ as demo
from tests.demo.checkpoints import reference_config
from tests.demo.comparison import Run, outcomes
from tests.demo.pictures import Picture, pictures
from tests.support.processes import ServerProcess

RUN = Run(PreprocessingPath.DEFERRED_CPU, "kimi-k3", DataType.UINT8)


def _png(mode: str) -> bytes:
    buffer = io.BytesIO()
    Image.linear_gradient("L").resize((40, 30)).convert(mode).save(buffer, "PNG")
    return buffer.getvalue()


def _transparent_png() -> bytes:
    buffer = io.BytesIO()
    Image.new("RGBA", (40, 30), (10, 20, 30, 40)).save(buffer, "PNG")
    return buffer.getvalue()


def test_equal_bytes_are_told_from_others(server: ServerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    picture = Picture("transparent", _transparent_png())
    with Client(server.address) as client:
        [right] = outcomes(client, RUN, [picture])
        other = reference_config("kimi-k2.5")
        monkeypatch.setattr("tests.demo.comparison.reference_config", lambda _preset: other)
        [wrong] = outcomes(client, RUN, [picture])
    assert (right.equals_reference, right.as_it_must) == (True, True)
    assert (wrong.equals_reference, wrong.as_it_must) == (False, False)


def test_a_damaged_picture_must_fail_and_a_good_one_must_not(server: ServerProcess) -> None:
    good = _png("RGB")
    with Client(server.address) as client:
        for run in (RUN, Run(PreprocessingPath.LOCAL, "kimi-k3", DataType.UINT8)):
            found = list(
                outcomes(
                    client,
                    run,
                    [
                        Picture("damaged", good[:-40], damaged=True),
                        Picture("said to be damaged", good, damaged=True),
                        Picture("said to be good", good[:-40]),
                        Picture("good", good),
                    ],
                )
            )
            assert [outcome.as_it_must for outcome in found] == [True, False, False, True]


@pytest.mark.parametrize(("damaged", "exit_code"), [(False, ExitCode.OK), (True, ExitCode.FAILED)])
def test_the_demo_ends_with_what_it_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], damaged: bool, exit_code: ExitCode
) -> None:
    monkeypatch.setattr(demo, "pictures", lambda: [Picture("grey", _png("L"), damaged=damaged)])
    assert demo.main() == exit_code
    assert "equal" in capsys.readouterr().out


def test_there_is_enough_to_stream_and_one_damaged_file() -> None:
    streamed = pictures()
    assert len({picture.name for picture in streamed}) == len(streamed) >= 12
    assert [picture.name for picture in streamed if picture.damaged] == ["truncated.jpg"]
