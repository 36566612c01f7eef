"""Endpoints and their subscriptions: statements, states, health, and decrypted secrets."""
