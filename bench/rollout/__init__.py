"""A rollout forwards and back under traffic, with the code of the version before: `make rollout`."""
