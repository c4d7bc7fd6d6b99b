"""What `server/deploy` ships for clusters, containers and hosts, held against the code that it starts."""
