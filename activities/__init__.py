"""Thin wrappers that give workflows the core: each class holds its injected clients."""
