"""What the screens and plain mode share and neither draws: the open deployment, drafts, runs, live checks."""
