"""Where models compute: device, precision, threads, and what a row's last bits depend on."""
