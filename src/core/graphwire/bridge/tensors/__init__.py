"""How do torch's tensors, storages and symbolic sizes become records, and come back?"""
