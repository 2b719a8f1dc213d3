"""Memory of a training: how much it requires, and how much is free."""
