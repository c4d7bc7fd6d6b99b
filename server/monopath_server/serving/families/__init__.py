"""The messages of the model families: one adapter a family, and the list of them. Nothing else of serving knows one."""
