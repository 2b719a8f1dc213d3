"""How much memory a training takes, and how much there is."""
