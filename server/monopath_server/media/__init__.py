"""Encoded or raw bytes to pixels: header probe, limits, decoding, colour modes, orientation."""
