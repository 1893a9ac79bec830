"""What a task writes outside: proposed by its agent, checked and written by the service, each at most once."""
