"""An opened deployment: its state, its answers, its resources and the cloud that it lives in."""
