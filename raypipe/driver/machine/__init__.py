"""The machine: devices, backends, signals and disk space."""
