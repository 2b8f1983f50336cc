"""Chats' exports: one module a service."""
