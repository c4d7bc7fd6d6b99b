"""Several servers on one host, a process each."""
