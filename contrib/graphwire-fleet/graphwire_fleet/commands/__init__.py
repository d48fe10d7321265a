"""What does each action of `graphwire fleet` take and print?"""
