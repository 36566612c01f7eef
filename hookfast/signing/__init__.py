"""Signing requests and encrypting their bodies, and the keys for both."""
