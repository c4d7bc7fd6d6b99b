"""The conformance suite: every client runs the contract vectors against a real server. README.md says how.

Nothing is imported here: programs of this package also run where only gRPC and protobuf are installed.
"""
