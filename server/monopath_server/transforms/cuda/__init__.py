"""The CUDA transform: the same bytes as the CPU's, made by integer kernels on a device.

Nothing here imports torch or Triton until a device is made, so that a server without one never touches a GPU.
"""

from __future__ import annotations
