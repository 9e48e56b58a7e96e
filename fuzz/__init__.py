"""Long-running fuzz targets."""
