"""How the functions of torch are called in a step: losses, norms, attention, recurrent layers."""
