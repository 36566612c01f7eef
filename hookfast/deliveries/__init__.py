"""Deliveries: one event on its way to one subscription. Pure: no I/O, and no clock of its own."""
