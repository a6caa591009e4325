"""A training job after its submission: watching, status, history, checkpoints, stopping."""
