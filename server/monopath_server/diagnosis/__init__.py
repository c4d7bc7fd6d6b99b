"""What this host can do for a server, check by check. A package that is missing is a finding, no failure."""
