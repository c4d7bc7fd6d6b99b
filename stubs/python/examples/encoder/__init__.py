"""A working encoder worker: images in, embeddings out, over data-parallel ranks that share a preprocessing server.

`python -m examples.encoder --help` runs its processes; README.md, in the folder above, says how they go together.
"""
