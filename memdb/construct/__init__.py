"""From messages to durable memory: windows, claims, times."""
