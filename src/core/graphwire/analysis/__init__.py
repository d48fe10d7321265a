"""What can be learned of a program without torch."""
