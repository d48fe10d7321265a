"""How others extend graphwire: interfaces, hook specifications, and the registry of what is installed."""
