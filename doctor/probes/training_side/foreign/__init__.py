"""Reading what is the user's: objects, containers, values, lines and frames of their code."""
