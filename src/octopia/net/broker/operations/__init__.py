"""What operators see of a broker: HTTP, metrics, health, traces, the log. All of it is read-only."""
