"""What does a save or a load change in its process for a while, and give back?"""
