"""A seeded storm of faults on the real parts, and checks that nothing was lost: `make chaos`."""
