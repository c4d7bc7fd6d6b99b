"""The PNG files that `monopath preview` writes."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from PIL import Image

from monopath.cli.faults import UserFault
from monopath.cli.preview_blocks import Block
from monopath.cli.preview_page import BLOCKS_A_PAGE, make_page

__all__ = ["PictureFiles"]


class PictureFiles:
    """Collects blocks and writes a picture of them when there is no more room on it, all or nothing."""

    def __init__(self, path: Path, footer: str) -> None:
        """`footer` stands at the bottom of each picture.

        Raises UserFault for a name that is none of a PNG file, and where it cannot be written.
        """
        if path.suffix.lower() != ".png":
            raise UserFault(f"--out: expected a name that ends in .png, got {path}")
        if path.is_dir() or not os.access(path.absolute().parent, os.W_OK):
            raise UserFault(f"--out: cannot write {path}")
        self._path = path
        self._footer = footer
        self._pending: list[Block] = []
        self.written: list[tuple[Path, tuple[int, int]]] = []
        """Each file with its (width, height) in pixels."""

    def add(self, block: Block) -> None:
        """Take an image. Raises UserFault where a full picture cannot be written."""
        self._pending.append(block)
        if len(self._pending) == BLOCKS_A_PAGE:
            self.write()

    def write(self) -> None:
        """Write what is left. Raises UserFault."""
        if not self._pending:
            return
        page = make_page(self._pending, self._footer)
        self._pending = []
        number = len(self.written) + 1
        path = self._path if number == 1 else self._path.with_stem(f"{self._path.stem}-{number}")
        _save(page, path)
        self.written.append((path, page.size))


def _save(page: Image.Image, path: Path) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        page.save(draft, "PNG")
        draft.replace(path)
    except OSError as error:
        raise UserFault(f"--out: cannot write {path}: {error.strerror or error}") from None
    finally:
        # After Ctrl-C too.
        with contextlib.suppress(OSError):
            draft.unlink()
