"""The values of a step: invalid inputs, where values come from, where they stop being finite."""
