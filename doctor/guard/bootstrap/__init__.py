"""A directory for PYTHONPATH: its sitecustomize waits until the program imports torch."""
