"""What do the commands print that read files and write none?"""
