"""Items in, features out: buffers, workers and the engines of the paths. Knows neither gRPC nor protobuf."""
