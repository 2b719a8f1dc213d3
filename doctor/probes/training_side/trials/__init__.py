"""Trials of a model that run after the judged steps, in a copy of the process."""
