"""Copy registries: once or continuously, and delete copies of deleted originals (section D of docs/requirements)."""
