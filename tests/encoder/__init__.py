"""The encoder example: its parts, and its processes under load and SIGKILL. `python -m tests.encoder.soak` is long."""
