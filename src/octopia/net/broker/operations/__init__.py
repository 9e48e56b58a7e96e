"""What whoever runs a broker sees of it: HTTP, metrics, health, traces, the log. Nothing here changes anything."""
