"""Working memory -> answer."""
