"""The memory as an MCP server, for any agent that speaks the Model Context Protocol."""
