"""What do the `torch.save` files beside a program contain, and how are they read and written without running code?"""
