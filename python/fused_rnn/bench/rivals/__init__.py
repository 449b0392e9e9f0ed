"""Programs, each a worker for one library; started by their paths."""
