"""dpassay command line."""
