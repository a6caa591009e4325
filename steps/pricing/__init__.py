"""What a deployment costs: the price book, its refresh, spending limits, reservations."""
