"""A JSON parser that keeps every digit and rejects what other parsers would read differently."""
