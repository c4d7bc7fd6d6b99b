"""The proxy configurations of `server/deploy`, loaded as shipped and run in the foreground before real replicas."""
