"""What several nodes do together: a store that carries messages, and collectives."""
