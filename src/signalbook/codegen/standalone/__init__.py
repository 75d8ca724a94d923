"""What code without Signalbook's runtime is made of: messages and schemas as tables that a small runtime reads."""
