"""How a program changes in time: schema steps, operators' forms, targets. Torch-free; everything works on plain trees."""
