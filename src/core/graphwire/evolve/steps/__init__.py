"""One module for each historic schema version, with the step to the next version and the step back."""
