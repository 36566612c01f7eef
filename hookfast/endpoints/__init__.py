"""Endpoints: their circuit, health, limits, secrets and credentials, without I/O."""
