"""How torch comes in and out: the only part of the core that imports torch."""
