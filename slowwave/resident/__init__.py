"""The resident reader: a small process that keeps a memory open for hooks and commands (docs/resident.md).

`place.py` says where it listens, `client.py` asks it, `server.py` serves. All three import the standard library alone.
What it answers is in `slowwave/cli/agents/resident.py`.
"""
