"""The version of memdb."""

__version__ = "0.1.0"
