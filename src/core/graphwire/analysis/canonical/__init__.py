"""Are two programs the same? The canonical form and the content hash of a program."""
