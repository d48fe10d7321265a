"""How are torch's tensors, storages and symbolic sizes converted to records and back?"""
