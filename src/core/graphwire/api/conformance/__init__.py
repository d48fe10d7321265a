"""Does a reader keep the rules of the format? What graphwire finds in a file, and the suite that other readers run."""

from graphwire.api.conformance.neutral import neutral
