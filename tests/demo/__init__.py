"""`make demo`: real photographs through a real server, every byte held against an independent reference."""
