"""The keys of an installation: for encryption, for signatures, and the first API key."""
