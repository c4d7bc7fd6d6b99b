"""Features on their way to the client: in messages, in shared memory, or in the memory of a GPU."""
