"""What the user is about to run and what they expect of the machine."""
