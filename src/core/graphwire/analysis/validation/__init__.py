"""Does a document obey the rules of its schema? Checks of records, and of weights against their graph."""
