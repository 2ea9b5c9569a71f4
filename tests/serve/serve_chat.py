"""Three messages that the tests of the command share."""

from __future__ import annotations

from typing import Any

CHAT: list[dict[str, Any]] = [
    {"speaker": "Ana", "content": "I adopted a parrot.", "said_at": "2026-01-20T09:12+01:00", "id": "a"},
    {"speaker": "Ben", "content": "Lovely! Which colour?", "said_at": "2026-01-20T09:13+01:00", "id": "b"},
    {"speaker": "Ana", "content": "Grey.", "id": "c", "image_caption": "a parrot on a piano", "role": "user"},
]
