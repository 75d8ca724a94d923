"""Access control: identities, tokens, policies and the audit log. This package does not depend on HTTP."""
