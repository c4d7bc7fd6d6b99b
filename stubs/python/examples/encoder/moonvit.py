"""A small encoder in the shape of MoonViT: patch embedding, blocks with attention inside each image, a 2 x 2 merge.

Its weights are random, and the same for the same seed. What it makes of an image does not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from monopath import GridThw, PathT, Result

__all__ = ["MoonVit", "MoonVitShape", "encode_batch"]

_MERGE = 2
"""Patches on a side of what becomes one token."""
_ROPE_BASE = 10_000.0


@dataclass(frozen=True, slots=True)
class MoonVitShape:
    """Sizes of the layers."""

    patch_px: int = 14
    channel_count: int = 64
    head_count: int = 4
    block_count: int = 3
    position_grid: int = 16
    """Sides of the learned table of positions, which is stretched over each image's patches."""
    output_channel_count: int = 96


class Block(nn.Module):
    """Attention and a two-layer network, each behind a norm and beside a shortcut."""

    def __init__(self, shape: MoonVitShape) -> None:
        super().__init__()
        channels = shape.channel_count
        self._head_count = shape.head_count
        self.attention_norm = nn.LayerNorm(channels)
        self.to_heads = nn.Linear(channels, 3 * channels)
        self.from_heads = nn.Linear(channels, channels)
        self.network_norm = nn.LayerNorm(channels)
        self.network = nn.Sequential(nn.Linear(channels, 4 * channels), nn.GELU(), nn.Linear(4 * channels, channels))

    def forward(self, rows: Tensor, turns: Tensor) -> Tensor:
        """Return the patches [patches, channels] of one image, after they have looked at each other."""
        patch_count = rows.shape[0]
        heads = self.to_heads(self.attention_norm(rows)).view(patch_count, 3, self._head_count, -1).permute(1, 2, 0, 3)
        queries, keys, values = heads.unbind(0)
        seen = functional.scaled_dot_product_attention(
            _turned(queries, turns)[None], _turned(keys, turns)[None], values[None]
        )[0]
        rows = rows + self.from_heads(seen.transpose(0, 1).reshape(patch_count, -1))
        added: Tensor = self.network(self.network_norm(rows))
        return rows + added


class MoonVit(nn.Module):
    """Rows of one image to its tokens."""

    def __init__(self, shape: MoonVitShape | None = None, *, seed: int = 0, device: str = "cpu") -> None:
        """Make the weights, from `seed` alone. `device` is torch's name of where the encoder runs."""
        super().__init__()
        self._shape = shape = shape or MoonVitShape()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            channels = shape.channel_count
            self.patches = nn.Linear(3 * shape.patch_px**2, channels)
            self.positions = nn.Parameter(torch.randn(1, channels, shape.position_grid, shape.position_grid))
            self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.block_count))
            self.norm = nn.LayerNorm(channels)
            self.merge = nn.Sequential(
                nn.Linear(_MERGE**2 * channels, _MERGE**2 * channels),
                nn.GELU(),
                nn.Linear(_MERGE**2 * channels, shape.output_channel_count),
            )
        self.to(device).eval()

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.positions.device

    def forward(self, rows: Tensor, grid: GridThw) -> Tensor:
        """Return the tokens, [h / 2 * w / 2, output channels], of one frame, made of its rows, [h * w, 3, 14, 14].

        Raises ValueError for rows that are not the grid's.
        """
        if grid.t != 1 or grid.h % _MERGE or grid.w % _MERGE or rows.shape[0] != grid.h * grid.w:
            raise ValueError(f"Expected rows of one frame of even sides, got {rows.shape[0]} rows of {grid}")
        positions = functional.interpolate(self.positions, (grid.h, grid.w), mode="bilinear", align_corners=False)
        patches = self.patches(rows.flatten(1)) + positions[0].flatten(1).T
        turns = _turns(grid, self._shape.channel_count // self._shape.head_count, self.device)
        for block in self.blocks:
            patches = block(patches, turns)
        windows = self.norm(patches).view(grid.h // _MERGE, _MERGE, grid.w // _MERGE, _MERGE, -1)
        tokens: Tensor = self.merge(windows.transpose(1, 2).reshape(rows.shape[0] // _MERGE**2, -1))
        return tokens


def encode_batch(encoder: MoonVit, batch: Sequence[Result[PathT]]) -> list[Tensor]:
    """Return the tokens of each image: float32 [tokens, channels], on the CPU. A batch of two paths is a type error.

    Images are encoded one after another, each from a copy in memory of its own, so that neither the shapes nor the
    alignment that the kernels see depend on the neighbours: embeddings are equal, bit for bit, in every batch.

    Raises the first failed item's ItemError.
    """
    with torch.inference_mode():
        return [
            encoder(result.torch().to(encoder.device, torch.float32, copy=True), result.plan.grid_thw).cpu()
            for result in batch
        ]


def _turns(grid: GridThw, head_channel_count: int, device: torch.device) -> Tensor:
    """Return by how much each patch's pairs of channels are turned: complex64 [patches, head channels / 2].

    The first half of the pairs tells the column, the second the line.
    """
    pair_count = head_channel_count // 4
    rates = _ROPE_BASE ** -(torch.arange(pair_count, device=device, dtype=torch.float32) / pair_count)
    lines, columns = torch.meshgrid(
        torch.arange(grid.h, device=device), torch.arange(grid.w, device=device), indexing="ij"
    )
    angles = torch.cat([torch.outer(places.flatten().float(), rates) for places in (columns, lines)], dim=1)
    return torch.polar(torch.ones_like(angles), angles)


def _turned(heads: Tensor, turns: Tensor) -> Tensor:
    """Return [heads, patches, channels] with each pair of channels turned."""
    pairs = torch.view_as_complex(heads.reshape(*heads.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(-2)
