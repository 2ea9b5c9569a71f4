"""What writing and reading cost."""
