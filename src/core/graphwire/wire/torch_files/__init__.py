"""What do the pickles and `torch.save` files that torch keeps beside a program hold?"""
