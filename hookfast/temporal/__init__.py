"""The connection to Temporal: its payloads, compression, availability and worker versions."""
