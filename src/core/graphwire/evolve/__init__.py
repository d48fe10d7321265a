"""Converts programs between versions: schema steps, operator forms, targets. Torch-free: everything works on plain trees."""
