"""Thin shells over Memory. Here untrusted text meets a terminal, and errors become exit codes."""
