"""The plugins that ship with graphwire, registered through the same entry points as anybody's."""
