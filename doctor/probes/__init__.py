"""Programs that look at the machine, one child process each; launch.py runs them."""
