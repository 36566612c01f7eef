"""Temporal workflows. They orchestrate; activities do the work."""
