"""Who may reach a server, and how: what can be set, and what is read of it from files. Knows no messages."""
