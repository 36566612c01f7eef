"""How long rows are kept, and what the daily run does, without I/O."""
