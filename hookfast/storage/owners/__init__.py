"""Notices to the owners of endpoints, and operational events about the same changes."""
