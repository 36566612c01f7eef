"""Events before and after their commit: types, schemas, subscribers, filters and lanes."""
