"""Search over arrays and index folders; it knows neither stores nor stages."""
