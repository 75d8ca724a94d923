//! What is wrong with a message, and where.

use std::error::Error;
use std::fmt;

/// What is wrong with a message, and where: a path such as `data/items/0/count`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where it is.
    pub path: String,
    /// The rule that is broken, such as `required`.
    pub rule: &'static str,
    /// What the rule demands.
    pub message: String,
}

impl Finding {
    pub(crate) fn new(
        path: impl fmt::Display,
        rule: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            path: path.to_string(),
            rule,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {} [{}]", self.path, self.message, self.rule)
    }
}

impl Error for Finding {}

fn write_all(out: &mut fmt::Formatter<'_>, xid: &str, findings: &[Finding]) -> fmt::Result {
    write!(out, "{xid}: ")?;
    for (place, finding) in findings.iter().enumerate() {
        let between = if place == 0 { "" } else { "; " };
        write!(out, "{between}{finding}")?;
    }
    Ok(())
}

/// A message that its definition does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboundError {
    /// The definition.
    pub xid: String,
    /// All that is wrong.
    pub findings: Vec<Finding>,
}

impl OutboundError {
    pub(crate) fn one(xid: &str, path: &str, rule: &'static str, message: String) -> Self {
        Self {
            xid: xid.to_owned(),
            findings: vec![Finding::new(path, rule, message)],
        }
    }
}

impl fmt::Display for OutboundError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_all(out, &self.xid, &self.findings)
    }
}

impl Error for OutboundError {}

/// A received message that is not of the definition it was read by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnexpectedMessage {
    /// The definition.
    pub xid: String,
    /// All that does not fit.
    pub findings: Vec<Finding>,
}

impl fmt::Display for UnexpectedMessage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_all(out, &self.xid, &self.findings)
    }
}

impl Error for UnexpectedMessage {}

/// Where a value is; it becomes text only where something is wrong.
#[derive(Clone, Copy, Debug)]
pub enum Path<'a> {
    /// The beginning.
    Root(&'a str),
    /// A member of an object.
    Member(&'a Path<'a>, &'a str),
    /// An item of an array.
    Item(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    /// The path of a member.
    #[must_use]
    pub fn member(&'a self, name: &'a str) -> Self {
        Self::Member(self, name)
    }

    /// The path of an item.
    #[must_use]
    pub fn item(&'a self, place: usize) -> Self {
        Self::Item(self, place)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root(text) => out.write_str(text),
            Self::Member(above, name) => {
                write!(
                    out,
                    "{above}/{}",
                    name.replace('~', "~0").replace('/', "~1")
                )
            }
            Self::Item(above, place) => write!(out, "{above}/{place}"),
        }
    }
}
