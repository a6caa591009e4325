"""Code shared by Google's services: filters, lists, links, ids, operations, durations, initial state."""
