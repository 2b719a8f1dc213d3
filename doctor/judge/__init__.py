"""What a check is, the engine that runs the checks, and the catalogue of all of them."""
