"""Statements on tenants, API keys, and the dashboard's sessions and sent forms."""
