"""Where are the rows of many files kept, and how are they found again?"""
