"""Kimi-VL: NaViT patch grids over images that are resized and padded in their own colour mode."""
