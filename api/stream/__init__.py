"""The event stream over Server-Sent Events: connections, their slots and their hub."""
