"""The feed of events and of attempts, in the order in which they were committed."""
