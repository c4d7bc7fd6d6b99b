"""The engine under load, faults, hostile clients and stops. `python -m tests.load.soak` is the long form of it."""
