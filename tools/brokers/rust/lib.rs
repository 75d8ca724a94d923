//! Nothing: the tests need what this depends on.
