"""Deliveries: their states, their attempts, the outbox, and jobs on many of them."""
