"""The protocol between reader and client: lines of JSON over a stream.

1. The client sends a nonce.
2. The reader sends its version, process id, a nonce of its own, and a proof that it knows the token.
3. The client sends its request, with its proof.
4. The reader sends the answer.

Over a Unix socket the kernel names the user at the other end, and the token is empty.
"""

import hmac
import json
import os
import socket
import struct
from io import BufferedIOBase
from typing import Any

LARGEST = 64 * 1024 * 1024
"""Bytes of a line; a longer one ends the conversation."""
Frame = dict[str, Any]


def write_message(stream: BufferedIOBase, message: Frame) -> None:
    """Write one message. Lone surrogates, for example in file names, are kept."""
    stream.write(json.dumps(message).encode("ascii") + b"\n")
    stream.flush()


def read_message(stream: BufferedIOBase) -> Frame:
    """Read one message.

    Raises:
        ValueError: the line is incomplete or too long, or isn't a JSON object.
    """
    line = stream.readline(LARGEST)
    if not line.endswith(b"\n"):
        raise ValueError("the other side ended within a message")
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError("a message is not an object")
    return message


def make_nonce() -> str:
    """Return random letters that no other conversation has."""
    return os.urandom(16).hex()


def prove(token: str, who: str, nonce: str) -> str:
    """Return the proof of one side, "reader" or "client", that it knows the token."""
    return hmac.new(token.encode(), f"{who} {nonce}".encode(), "sha256").hexdigest()


def is_proven(
    token: str,
    who: str,
    nonce: str,
    proof: object,
) -> bool:
    """Return True if a proof is right. It is compared in constant time."""
    return isinstance(proof, str) and hmac.compare_digest(
        prove(token, who, nonce).encode(), proof.encode("utf-8", "replace")
    )


def is_own_user(connection: socket.socket) -> bool:
    """Return True if the process at the other end of a Unix socket runs as this user."""
    form = "3i"
    credentials = connection.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(form)
    )
    _, user, _ = struct.unpack(form, credentials)
    return bool(user == os.getuid())
