"""Programs that use the client. They are tested, and not installed."""
