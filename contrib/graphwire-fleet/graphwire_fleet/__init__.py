"""Commands on any number of exported programs: `graphwire fleet`."""
