"""Results in the forms that engines take. One module each; none of them imports an engine.

| module | gives |
|---|---|
| `monopath.adapters.sglang` | fields of `MultimodalDataItem`, and the engine's `processor_output` |
| `monopath.adapters.vllm` | multimodal kwargs, how they are split, hashes and placeholders |
| `monopath.adapters.smg` | the `MultimodalInputs` messages of `smg-grpc-proto` (`pip install 'monopath[smg]'`) |
| `monopath.adapters.torch` | a batch of tensors, and the look-up that finishes uint8 features |
| `monopath.adapters.dlpack` | DLPack, for jax, cupy and others |
| `monopath.adapters.safetensors` | a file, or its bytes |
| `monopath.adapters.digests` | what engines' caches know the features by |

Every adapter refuses results of two paths, two configs or two element types in one batch, and those of another config
than the stream's.
"""

from __future__ import annotations

__all__: list[str] = []
