"""The one file; the only room that knows SQL."""
