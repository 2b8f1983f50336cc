"""The `slowwave` command: one file a group of commands. Heavy imports stand inside the commands that need them."""
