"""What Google's services share: filters, lists, links, ids, operations, durations, initial data."""
