"""The Kimi family (Kimi-K2.5, Kimi-K3): NaViT patch grids over images padded to whole merge windows."""
