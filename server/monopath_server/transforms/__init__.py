"""Pixels and a plan to rows of patches: weights and tables made on the host, and the transforms that use them."""
