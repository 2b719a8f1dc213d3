"""What an error of the user's code shows: its frames, the call that raised, its values."""
