"""The typed Python client against scripted servers and the real one."""
