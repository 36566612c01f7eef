"""Starting and waking workflows: the relay of the outbox, batches, schedules and sweeps."""
