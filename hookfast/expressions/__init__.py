"""JMESPath with a bounded cost of evaluation, for key expressions and mappings. Pure."""
