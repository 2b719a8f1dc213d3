"""The job file: found, read, merged with flags and variables, written for the user."""
