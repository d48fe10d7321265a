"""What can be learned from a program without torch? Validation, summaries, differences and content hashes."""
