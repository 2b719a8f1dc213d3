"""The settings that a machine should train with."""
