"""What do the commands show and make that are about plugins?"""
