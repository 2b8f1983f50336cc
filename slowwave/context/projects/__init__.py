"""What is told without a question: the briefing, a project's files, a skill."""
