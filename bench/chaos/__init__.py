"""A seeded storm over the real parts, and the checks that nothing was lost in it: `make chaos`."""
