"""InternVL: an image becomes a grid of tiles of one size, and a thumbnail of the whole."""
