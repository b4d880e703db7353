"""What the driver asks of the machine: devices, backends, signals, space."""
