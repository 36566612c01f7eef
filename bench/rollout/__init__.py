"""A rollout forwards and back under traffic, from and to the version before: `make rollout`."""
