"""Commits events with their deliveries, within the quotas of their tenants."""
