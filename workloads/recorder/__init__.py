"""Records solo profiles of the workload programs on a real GPU."""
