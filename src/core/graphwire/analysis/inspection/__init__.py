"""What does a file hold, and what does loading it involve?"""
