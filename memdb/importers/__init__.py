"""From what other programs write to messages: each file here reads one format."""
