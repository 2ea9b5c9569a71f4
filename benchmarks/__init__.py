"""memdb's own benchmarks: `quality` measures what is found, `speed` how fast."""
