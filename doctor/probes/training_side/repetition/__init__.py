"""A step that raised, repeated once under observation."""
