"""Programs that look at the machine, one child process each, run by path."""
