"""A Model Explorer adapter for the files that graphwire reads. Model Explorer imports the module `main`."""
