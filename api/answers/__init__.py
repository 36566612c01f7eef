"""The parts that every answer of the API has: problems (RFC 9457), headers and an id."""
