"""The command line `monopath`: a server, and what can be asked of one."""
