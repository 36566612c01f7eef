"""Received webhooks: sources, the requests that they sent, and the keys of duplicates."""
