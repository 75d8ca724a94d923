"""Who may do what: identities, tokens, policies and the audit. Nothing here knows HTTP."""
