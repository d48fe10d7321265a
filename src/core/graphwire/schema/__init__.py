"""What a program is: typed records, without torch."""
