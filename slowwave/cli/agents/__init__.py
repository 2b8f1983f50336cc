"""Commands that bring the memory to agents: hooks, the server of MCP, projects' files, skills."""
