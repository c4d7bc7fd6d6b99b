"""The monopath server: images in, vision-language model features out, one gRPC method a preprocessing path."""

__all__ = ["__version__"]

__version__ = "0.1.0"
