"""Circuits of endpoints, with the deliveries that they hold, and their log lines."""
