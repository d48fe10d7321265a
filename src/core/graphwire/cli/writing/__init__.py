"""What do the commands read and write that write files?"""
