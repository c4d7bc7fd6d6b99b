"""Python's conformance programs. What all of them share imports gRPC, protobuf and the stubs, and nothing else."""
