"""The registries' drafts of before xRegistry: their documents, and how they and registry entities become each other."""
