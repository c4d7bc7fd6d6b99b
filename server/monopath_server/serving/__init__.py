"""All that knows gRPC and protobuf: messages to plain values and back, sessions, statuses."""
