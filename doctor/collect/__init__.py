"""Looking at the machine: each probe in a child process, and what came of it as sections."""
