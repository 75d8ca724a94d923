"""What to draft definitions from, and the draft."""

from __future__ import annotations

from dataclasses import dataclass

from signalbook.values import JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftJob:
    """The options of ``signalbook pipeline infer``.

    ``inputs`` are files, folders and globs; ``group`` is the id of the message group and the schema group to draft.
    ``accept`` is the share of held-back messages that the draft has to accept; ``limit`` the most messages looked at,
    0 for all of them.
    """

    inputs: tuple[str, ...]
    group: str
    input_format: str = "cloudevents-jsonl"
    accept: float = 0.99
    limit: int = 0
    master: str = "local[*]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A registry document drafted from messages, and how far to trust it.

    ``messages`` says of each definition, by id, how many messages it was drafted from. Of the messages read,
    ``unreadable`` were no messages and ``unknown`` of no kind that can be told. Half of the others were held back from
    a first draft: ``unseen`` counts, by name, those of kinds that it could not define, since none was left to it; the
    others were ``tried``. It accepted ``accepted`` of them and refused the rest for ``reasons``, which tell definition,
    rule and place. The document is drafted from all messages by the same ``rules``.
    """

    document: JSONObject
    messages: dict[str, int]
    read: int
    unreadable: int
    unknown: int
    tried: int
    accepted: int
    reasons: dict[str, int]
    unseen: dict[str, int]
    rules: str

    @property
    def acceptance(self) -> float:
        """The share of tried messages accepted, 0 to 1; 0 if none was tried."""
        return self.accepted / self.tried if self.tried else 0.0

    def to_json(self) -> JSONObject:
        """The report that ``pipeline infer --json`` prints; the document is not in it."""
        return {
            "read": self.read,
            "unreadable": self.unreadable,
            "unknown": self.unknown,
            "messages": dict(self.messages),
            "held_back": self.tried + sum(self.unseen.values()),
            "unseen": dict(self.unseen),
            "tried": self.tried,
            "accepted": self.accepted,
            "acceptance": round(self.acceptance, 6),
            "reasons": dict(self.reasons),
            "rules": self.rules,
        }
