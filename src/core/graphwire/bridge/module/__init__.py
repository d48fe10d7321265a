"""How does a program record become a module that runs?"""
