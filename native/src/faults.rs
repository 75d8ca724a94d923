//! Which values of a payload break the rules of their columns: keys by which what a validator says of them is found.
//!
//! A key has each such value as it stands in the text, behind its path; of a member that is missing its name, and of one
//! that may not be there name and value. Rules of columns are about one value each. So payloads with the same key differ
//! only where nothing is wrong with them.

use crate::json::{Names, Refused, Scanned, Scanner};
use crate::payloads::{Column, Kind, Map, Object};

/// Bytes of the longest key; what is said of a longer one would hardly be asked again.
const LONGEST: usize = 1024;
/// Ends every part of a key. No JSON text has it, nor what is before every step of a path: a slash may be in a name.
const END: u8 = 0;
const STEP: u8 = 1;
const MISSING: u8 = b'!';
const UNKNOWN: u8 = b'+';

/// Add the key of one payload to `key`; refused where a payload has none, as nothing it breaks is about a column.
pub fn find(column: &Column, payload: &str, key: &mut Vec<u8>) -> Scanned<()> {
    let start = key.len();
    let mut search = Search {
        scanner: Scanner::new(payload),
        path: Vec::new(),
        key,
        most: start + LONGEST,
    };
    search.scanner.space();
    let found = search.value(column, 0).and_then(|()| search.scanner.end());
    if found.is_err() || key.len() == start {
        key.truncate(start);
        return Err(Refused);
    }
    Ok(())
}

struct Search<'a, 'k> {
    scanner: Scanner<'a>,
    path: Vec<u8>,
    key: &'k mut Vec<u8>,
    most: usize,
}

impl<'a> Search<'a, '_> {
    fn value(&mut self, column: &Column, depth: usize) -> Scanned<()> {
        let scanner = &mut self.scanner;
        let next = scanner.peek();
        if column.nullable && next == b'n' {
            return scanner.word(b"null");
        }
        let start = scanner.at();
        let sound = match (&column.kind, next) {
            (Kind::Bool(_, allowed), b't' | b'f') => {
                let value = next == b't';
                scanner.word(if value { b"true" } else { b"false" })?;
                allowed[value as usize]
            }
            (Kind::Integer(_, rules), b'-' | b'0'..=b'9') => {
                let value = scanner.number()?.integral();
                value.and_then(|value| rules.check(value)).is_ok()
            }
            (Kind::Float(_, rules), b'-' | b'0'..=b'9') => rules.check(scanner.number()?.float()?).is_ok(),
            (Kind::String(_, rules) | Kind::Instant(_, rules) | Kind::Date(_, rules), b'"') => {
                rules.check(&scanner.string()?.text()?).is_ok()
            }
            (Kind::Raw(..), _) => {
                scanner.skip_unique(depth)?;
                true
            }
            (Kind::List(list), b'[') => {
                let items = self.items(&list.item, depth + 1)?;
                list.sizes.check(items).is_ok()
            }
            (Kind::Map(map), b'{') => self.entries(map, depth + 1)?,
            (Kind::Object(object), b'{') => return self.members(object, depth + 1),
            _ => {
                scanner.skip_unique(depth)?;
                false
            }
        };
        if sound {
            return Ok(());
        }
        let value = self.scanner.since(start);
        self.add(&[value])
    }

    fn items(&mut self, item: &Column, depth: usize) -> Scanned<usize> {
        let mut count = 0;
        let mut more = self.scanner.open(b'[', b']', depth)?;
        while more {
            self.scanner.space();
            self.below(count.to_string().as_bytes(), item, depth)?;
            count += 1;
            more = self.scanner.more(b']')?;
        }
        Ok(count)
    }

    /// Whether a map has as many entries as it may have.
    fn entries(&mut self, map: &Map, depth: usize) -> Scanned<bool> {
        let (mut names, mut count) = (Names::default(), 0);
        let mut more = self.scanner.open(b'{', b'}', depth)?;
        while more {
            self.scanner.space();
            let name = self.scanner.string()?;
            names.add(&name)?;
            self.scanner.colon()?;
            self.below(name.raw, &map.value, depth)?;
            count += 1;
            more = self.scanner.more(b'}')?;
        }
        Ok(map.sizes.check(count).is_ok())
    }

    fn members(&mut self, object: &Object, depth: usize) -> Scanned<()> {
        let mut seen = vec![false; object.members.len()];
        let mut more = self.scanner.open(b'{', b'}', depth)?;
        while more {
            self.scanner.space();
            let name = self.scanner.string()?;
            let text = name.text()?;
            self.scanner.colon()?;
            match object.number(&text) {
                Some(number) if seen[number] => return Err(Refused),
                Some(number) => {
                    seen[number] = true;
                    self.below(name.raw, &object.members[number].column, depth)?;
                }
                None => self.other(name.raw, object.closed, depth)?,
            }
            more = self.scanner.more(b'}')?;
        }
        for (member, seen) in object.members.iter().zip(seen) {
            if member.required && !seen {
                self.add(&[&[MISSING], member.key.name()])?;
            }
        }
        Ok(())
    }

    /// A member that is not declared.
    fn other(&mut self, name: &[u8], closed: bool, depth: usize) -> Scanned<()> {
        let start = self.scanner.at();
        self.scanner.skip(depth)?;
        if !closed {
            return Ok(());
        }
        let value = self.scanner.since(start);
        self.add(&[&[UNKNOWN], name, &[END], value])
    }

    fn below(&mut self, name: &[u8], column: &Column, depth: usize) -> Scanned<()> {
        let length = self.path.len();
        self.path.push(STEP);
        self.path.extend_from_slice(name);
        self.value(column, depth)?;
        self.path.truncate(length);
        Ok(())
    }

    fn add(&mut self, parts: &[&[u8]]) -> Scanned<()> {
        self.key.extend_from_slice(&self.path);
        self.key.push(END);
        for part in parts {
            self.key.extend_from_slice(part);
        }
        self.key.push(END);
        if self.key.len() > self.most {
            return Err(Refused);
        }
        Ok(())
    }
}
