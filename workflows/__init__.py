"""Orchestration only: Temporal workflows that read as the story of what they conduct."""
