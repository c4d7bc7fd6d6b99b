"""Several servers on one host: addresses, devices, and what keeps them running."""
