"""Text encoders behind one protocol."""
