"""OpenClaw's databases and event files."""
