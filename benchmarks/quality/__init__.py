"""How well memdb finds what a question needs: protocols, baselines, and a results file."""
