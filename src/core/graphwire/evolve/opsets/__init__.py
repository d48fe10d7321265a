"""How does a program come to the opset versions that are installed or asked for?"""
