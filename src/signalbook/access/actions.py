"""What may be allowed or denied: the actions, and the roles that name several of them."""

from __future__ import annotations

from enum import IntFlag
from typing import Final


class Action(IntFlag):
    """Something that is done to an xid, or several such things."""

    LIST = 1
    """See the ids of a collection."""
    READ = 2
    CREATE = 4
    """Make a Group or a Resource."""
    UPDATE = 8
    """Change what there is: its attributes, meta and documents, and new Versions of it."""
    DELETE = 16
    """Remove a Group, a Resource or Versions of it."""
    CONFIGURE = 32
    """Change the model and the capabilities, and start what the server does by itself."""
    SUBSCRIBE = 64
    """Have events delivered."""
    REPORT = 128
    """Report what a pipeline did, and read such reports."""
    ADMINISTER = 256
    """Change who may do what, make tokens, and read the audit."""

    @property
    def word(self) -> str:
        """The name of a single action in documents."""
        return str(self.name).lower()


NOTHING: Final = Action(0)
EVERYTHING: Final = Action(sum(Action))
WHOLE: Final = Action.CONFIGURE | Action.ADMINISTER
"""What is done to the registry as a whole, so that no part of it can be named."""
WRITES: Final = Action.CREATE | Action.UPDATE | Action.DELETE
ACTIONS: Final = {action.word: action for action in Action}

_READER: Final = Action.LIST | Action.READ
ROLES: Final = {
    "reader": _READER,
    "writer": _READER | Action.CREATE | Action.UPDATE,
    "owner": _READER | WRITES | Action.SUBSCRIBE | Action.REPORT,
    "administrator": EVERYTHING,
}


def words(actions: Action) -> list[str]:
    """The actions by name, in their order."""
    return [action.word for action in actions]
