"""Clients of the Ray head: Jobs API, job driver, log follower."""
