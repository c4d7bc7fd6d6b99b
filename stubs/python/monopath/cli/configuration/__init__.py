"""The settings of `monopath serve`: one table, and what is made of it."""
