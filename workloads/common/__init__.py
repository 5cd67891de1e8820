"""Code that all workload programs share."""
