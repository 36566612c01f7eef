"""Event types, their schemas and patterns, envelopes and content filters, without I/O."""
