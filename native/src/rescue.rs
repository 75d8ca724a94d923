//! Members of payloads that no column has, as JSON in the places where they were.

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::columns::{Bits, Texts};
use crate::decoder::{text, Places};
use crate::json::{Inside, Names, Scanned, Scanner};
use crate::payloads::{Column, Kind};
use crate::program::rule;
use crate::times;

/// Characters of a path that are counted apart.
const LONGEST: usize = 200;

/// What the columns of a value hold of it.
pub enum Held {
    All,
    /// Of an object these members.
    Members(HashMap<Vec<u8>, Held>),
    /// Of an array so much of each item.
    Items(Box<Held>),
    /// Of an object so much of each member.
    Values(Box<Held>),
    /// Of a text the time, or the date.
    Instant,
    Date,
    /// Of a number the float, unless that lacks some of its digits.
    Float,
}

/// The column for what the columns of a payload do not hold, null where that is nothing.
pub struct Rest {
    held: Held,
    pub column: Column,
}

impl Held {
    /// As Python describes it: `(kind,)`, `(kind, inner)` or, of members, `(kind, [(name, inner), ...])`.
    pub fn new(program: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let kind: String = rule(program, 0)?;
        Ok(match kind.as_str() {
            "all" => Held::All,
            "timestamp" => Held::Instant,
            "date" => Held::Date,
            "float" => Held::Float,
            "items" => Held::Items(Box::new(Held::new(&rule(program, 1)?)?)),
            "values" => Held::Values(Box::new(Held::new(&rule(program, 1)?)?)),
            "members" => {
                let given: Vec<(String, Bound<'_, PyTuple>)> = rule(program, 1)?;
                let members = given
                    .into_iter()
                    .map(|(name, inner)| Ok((name.into_bytes(), Held::new(&inner)?)));
                Held::Members(members.collect::<PyResult<_>>()?)
            }
            _ => return Err(PyValueError::new_err(format!("nothing is held as {kind:?}"))),
        })
    }

    /// How much is held of the member `name`; `None` if nothing is.
    fn member(&self, name: &[u8]) -> Option<&Held> {
        match self {
            Held::Members(members) => members.get(name),
            Held::Values(value) => Some(value),
            _ => None,
        }
    }

    /// Add to `into` what is not held of a value, and say whether there is any; refused if an object has a name twice.
    fn rest(&self, scanner: &mut Scanner<'_>, depth: usize, into: &mut Vec<u8>) -> Scanned<bool> {
        match (self, scanner.peek()) {
            (Held::Members(_) | Held::Values(_), b'{') => self.rest_of_object(scanner, depth + 1, into),
            (Held::Items(item), b'[') => item.rest_of_items(scanner, depth + 1, into),
            (Held::Instant | Held::Date, b'"') => self.rest_of_text(scanner, into),
            (Held::Float, b'-' | b'0'..=b'9') => rest_of_number(scanner, into),
            _ => scanner.skip_unique(depth).map(|()| false),
        }
    }

    fn rest_of_text(&self, scanner: &mut Scanner<'_>, into: &mut Vec<u8>) -> Scanned<bool> {
        let first = scanner.at();
        let text = scanner.string()?.text()?;
        let whole = match self {
            Held::Date => times::date(&text).map(|(_, whole)| whole),
            _ => times::instant(&text).map(|(_, whole)| whole),
        };
        if whole != Some(true) {
            into.extend_from_slice(scanner.since(first));
        }
        Ok(whole != Some(true))
    }

    fn rest_of_object(&self, scanner: &mut Scanner<'_>, depth: usize, into: &mut Vec<u8>) -> Scanned<bool> {
        let start = into.len();
        let mut names = Names::default();
        let mut more = scanner.open(b'{', b'}', depth)?;
        while more {
            scanner.space();
            let name = scanner.string()?;
            let text = names.add(&name)?;
            scanner.colon()?;
            let before = into.len();
            into.push(if before == start { b'{' } else { b',' });
            quote(&name, into);
            match self.member(&text) {
                Some(held) => {
                    if !held.rest(scanner, depth, into)? {
                        into.truncate(before);
                    }
                }
                None => {
                    let first = scanner.at();
                    scanner.skip_unique(depth)?;
                    into.extend_from_slice(scanner.since(first));
                }
            }
            more = scanner.more(b'}')?;
        }
        let found = into.len() > start;
        if found {
            into.push(b'}');
        }
        Ok(found)
    }

    /// Of items behind the last that has any there is no trace; those before it that have none are null.
    fn rest_of_items(&self, scanner: &mut Scanner<'_>, depth: usize, into: &mut Vec<u8>) -> Scanned<bool> {
        let start = into.len();
        let mut end = start;
        let mut more = scanner.open(b'[', b']', depth)?;
        while more {
            scanner.space();
            into.push(if into.len() == start { b'[' } else { b',' });
            if self.rest(scanner, depth, into)? {
                end = into.len();
            } else {
                into.extend_from_slice(b"null");
            }
            more = scanner.more(b']')?;
        }
        into.truncate(end);
        if end > start {
            into.push(b']');
        }
        Ok(end > start)
    }

    /// Add the path of each member that was not held to `found`, out of what `rest` wrote.
    fn paths(&self, scanner: &mut Scanner<'_>, path: &mut String, found: &mut Vec<String>) -> Scanned<()> {
        let inner = path.len();
        match (self, scanner.peek()) {
            (Held::Members(_) | Held::Values(_), b'{') => {
                let mut more = scanner.open(b'{', b'}', 0)?;
                while more {
                    let name = scanner.string()?.text()?;
                    scanner.colon()?;
                    match self {
                        Held::Values(_) => path.push_str("/*"),
                        _ => segment(&name, path),
                    }
                    match self.member(&name) {
                        Some(held) => held.paths(scanner, path, found)?,
                        None => {
                            found.push(path.chars().take(LONGEST).collect());
                            scanner.skip(0)?;
                        }
                    }
                    path.truncate(inner);
                    more = scanner.more(b'}')?;
                }
            }
            (Held::Items(item), b'[') => {
                path.push_str("/*");
                let mut more = scanner.open(b'[', b']', 0)?;
                while more {
                    item.paths(scanner, path, found)?;
                    more = scanner.more(b']')?;
                }
                path.truncate(inner);
            }
            // What a column does not hold all of; items of lists that lack nothing are null.
            (_, letter) => {
                if letter != b'n' {
                    found.push(path.chars().take(LONGEST).collect());
                }
                scanner.skip(0)?;
            }
        }
        Ok(())
    }
}

fn rest_of_number(scanner: &mut Scanner<'_>, into: &mut Vec<u8>) -> Scanned<bool> {
    let number = scanner.number()?;
    let whole = number.is_exact(number.float()?);
    if !whole {
        into.extend_from_slice(number.raw);
    }
    Ok(!whole)
}

fn quote(name: &Inside<'_>, into: &mut Vec<u8>) {
    into.push(b'"');
    into.extend_from_slice(name.raw);
    into.extend_from_slice(b"\":");
}

/// Add a segment of a JSON Pointer (RFC 6901).
fn segment(name: &[u8], path: &mut String) {
    path.push('/');
    for letter in String::from_utf8_lossy(name).chars() {
        match letter {
            '~' => path.push_str("~0"),
            '/' => path.push_str("~1"),
            _ => path.push(letter),
        }
    }
}

impl Rest {
    pub fn new(held: Held) -> Self {
        let column = Column {
            nullable: true,
            gaps: true,
            valid: Bits::default(),
            kind: Kind::Raw(Texts::default(), false),
        };
        Rest { held, column }
    }

    /// Add what is not held of a payload that was read already; `doubtful` unless that is known to be nothing.
    pub fn read(&mut self, payload: &str, doubtful: bool) -> Scanned<()> {
        if !doubtful {
            self.column.skip();
            return Ok(());
        }
        let rows = self.column.len();
        let added = self.add(payload);
        if added.is_err() {
            self.column.truncate(rows);
        }
        added
    }

    // Only of payloads that have such members, so that all others are read once.
    fn add(&mut self, payload: &str) -> Scanned<()> {
        let mut scanner = Scanner::new(payload);
        scanner.space();
        if let Kind::Raw(texts, _) = &mut self.column.kind {
            let found = self.held.rest(&mut scanner, 0, &mut texts.bytes)?;
            texts.close()?;
            self.column.valid.push(found);
        }
        Ok(())
    }
}

/// Counts what columns do not hold, by its paths.
#[pyclass]
pub struct RescuedPaths {
    held: Held,
}

#[pymethods]
impl RescuedPaths {
    #[new]
    fn new(program: &Bound<'_, PyTuple>) -> PyResult<Self> {
        Ok(RescuedPaths {
            held: Held::new(program)?,
        })
    }

    /// How many texts have something at each path; those beyond the first `most` are one, the empty path.
    fn count(&self, py: Python<'_>, texts: Places<'_>, most: usize) -> PyResult<HashMap<String, usize>> {
        let mut counts = HashMap::new();
        texts.each(py, |raw| {
            let mut found = Vec::new();
            self.held
                .paths(&mut Scanner::new(text(raw)?), &mut String::new(), &mut found)?;
            found.sort_unstable();
            found.dedup();
            for path in found {
                let known = counts.len() < most || counts.contains_key(&path);
                *counts.entry(if known { path } else { String::new() }).or_insert(0) += 1;
            }
            Ok(())
        })?;
        Ok(counts)
    }
}
