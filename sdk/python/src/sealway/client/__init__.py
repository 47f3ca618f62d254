"""The client: an `httpx` transport, sync and async, over one conversation that does no I/O of its own."""
