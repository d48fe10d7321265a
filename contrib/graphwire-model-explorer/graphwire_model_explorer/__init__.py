"""Model Explorer shows what graphwire reads. `main` is the module that Model Explorer asks for."""
