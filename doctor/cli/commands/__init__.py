"""The commands: call, print, exit. No logic."""
