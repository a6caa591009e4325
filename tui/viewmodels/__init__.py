"""Pure functions from state and events to what a front end shows."""
