//! Payloads of one schema into columns, held to its rules on the way.

use std::collections::HashMap;

use crate::columns::{Bits, Offsets, Texts};
use crate::json::{Key, Refused, Scanned, Scanner};
use crate::rescue::Rest;
use crate::rules::{Floats, Integers, Sizes, Strings};
use crate::times;

/// Members beyond which names are looked up in a table.
const FEW: usize = 8;

/// One column, and what its values have to be.
pub struct Column {
    /// Whether a JSON null is a value.
    pub nullable: bool,
    /// Whether rows may be without a value, be it null or absent.
    pub gaps: bool,
    pub valid: Bits,
    pub kind: Kind,
}

pub enum Kind {
    /// Nothing but nulls.
    Null,
    Bool(Bits, [bool; 2]),
    Integer(Vec<i64>, Integers),
    Float(Vec<f64>, Floats),
    String(Texts, Strings),
    /// Texts that are times, in microseconds, or dates, in days; without a value where they are none.
    Instant(Vec<i64>, Strings),
    Date(Vec<i32>, Strings),
    /// The JSON text of any value, as it was sent; whether others make columns of it, which may leave members out.
    Raw(Texts, bool),
    /// The JSON text of a value that one of these columns would take, as it was sent. None of them keeps a row.
    Choice(Texts, Vec<Column>),
    List(List),
    Map(Map),
    Object(Object),
}

pub struct List {
    pub ends: Offsets,
    pub sizes: Sizes,
    pub item: Box<Column>,
}

pub struct Map {
    pub ends: Offsets,
    pub sizes: Sizes,
    pub names: Texts,
    pub value: Box<Column>,
}

pub struct Object {
    rows: usize,
    pub closed: bool,
    pub members: Vec<Member>,
    numbers: HashMap<Vec<u8>, usize>,
    /// Which member came at which place in the last object.
    order: Vec<usize>,
}

pub struct Member {
    pub key: Key,
    pub required: bool,
    pub column: Column,
}

impl Column {
    /// How many rows it has.
    #[inline(always)]
    pub fn len(&self) -> usize {
        match &self.kind {
            Kind::Null => self.valid.len(),
            Kind::Bool(values, _) => values.len(),
            Kind::Integer(values, _) => values.len(),
            Kind::Float(values, _) => values.len(),
            Kind::Instant(values, _) => values.len(),
            Kind::Date(values, _) => values.len(),
            Kind::String(texts, _) | Kind::Raw(texts, _) | Kind::Choice(texts, _) => texts.ends.len(),
            Kind::List(list) => list.ends.len(),
            Kind::Map(map) => map.ends.len(),
            Kind::Object(object) => object.rows,
        }
    }

    /// Read a value. After a refusal columns may have uneven lengths, and have to be truncated.
    #[inline]
    pub fn read(&mut self, scanner: &mut Scanner<'_>, depth: usize) -> Scanned<()> {
        if self.nullable && scanner.peek() == b'n' {
            scanner.word(b"null")?;
            self.skip();
            return Ok(());
        }
        let there = self.kind.read(scanner, depth)?;
        if self.gaps {
            self.valid.push(there);
        }
        Ok(())
    }

    /// A row without a value.
    pub fn skip(&mut self) {
        self.valid.push(false);
        match &mut self.kind {
            Kind::Null => {}
            Kind::Bool(values, _) => values.push(false),
            Kind::Integer(values, _) => values.push(0),
            Kind::Float(values, _) => values.push(0.0),
            Kind::Instant(values, _) => values.push(0),
            Kind::Date(values, _) => values.push(0),
            Kind::String(texts, _) | Kind::Raw(texts, _) | Kind::Choice(texts, _) => texts.ends.repeat(),
            Kind::List(list) => list.ends.repeat(),
            Kind::Map(map) => map.ends.repeat(),
            Kind::Object(object) => object.skip(),
        }
    }

    /// Whether a value may begin with this byte.
    fn begins(&self, byte: u8) -> bool {
        match &self.kind {
            _ if byte == b'n' => self.nullable || matches!(self.kind, Kind::Raw(..) | Kind::Choice(..)),
            Kind::Null => false,
            Kind::Bool(..) => matches!(byte, b't' | b'f'),
            Kind::Integer(..) | Kind::Float(..) => matches!(byte, b'-' | b'0'..=b'9'),
            Kind::String(..) | Kind::Instant(..) | Kind::Date(..) => byte == b'"',
            Kind::List(_) => byte == b'[',
            Kind::Map(_) | Kind::Object(_) => byte == b'{',
            Kind::Raw(..) | Kind::Choice(..) => true,
        }
    }

    /// Make room for so many rows.
    pub fn reserve(&mut self, rows: usize) {
        match &mut self.kind {
            Kind::Null | Kind::Bool(..) => {}
            Kind::Integer(values, _) => values.reserve(rows),
            Kind::Float(values, _) => values.reserve(rows),
            Kind::Instant(values, _) => values.reserve(rows),
            Kind::Date(values, _) => values.reserve(rows),
            Kind::String(texts, _) | Kind::Raw(texts, _) | Kind::Choice(texts, _) => texts.reserve(rows),
            Kind::List(list) => list.ends.reserve(rows),
            Kind::Map(map) => map.ends.reserve(rows),
            Kind::Object(object) => object.reserve(rows),
        }
    }

    /// Take back all rows but the first so many.
    pub fn truncate(&mut self, rows: usize) {
        self.valid.truncate(rows);
        match &mut self.kind {
            Kind::Null => {}
            Kind::Bool(values, _) => values.truncate(rows),
            Kind::Integer(values, _) => values.truncate(rows),
            Kind::Float(values, _) => values.truncate(rows),
            Kind::Instant(values, _) => values.truncate(rows),
            Kind::Date(values, _) => values.truncate(rows),
            Kind::String(texts, _) | Kind::Raw(texts, _) | Kind::Choice(texts, _) => texts.truncate(rows),
            Kind::List(list) => {
                list.ends.truncate(rows);
                list.item.truncate(list.ends.end());
            }
            Kind::Map(map) => {
                map.ends.truncate(rows);
                map.names.truncate(map.ends.end());
                map.value.truncate(map.ends.end());
            }
            Kind::Object(object) => object.truncate(rows),
        }
    }
}

impl Kind {
    /// Read a value; whether the column holds any of it.
    #[inline]
    fn read(&mut self, scanner: &mut Scanner<'_>, depth: usize) -> Scanned<bool> {
        match self {
            Kind::Null => return Err(Refused),
            Kind::Bool(values, allowed) => {
                let value = scanner.peek() == b't';
                scanner.word(if value { b"true" } else { b"false" })?;
                if !allowed[value as usize] {
                    return Err(Refused);
                }
                values.push(value);
            }
            Kind::Integer(values, rules) => values.push(rules.check(scanner.number()?.integral()?)?),
            Kind::Float(values, rules) => {
                let number = scanner.number()?;
                let value = rules.check(number.float()?)?;
                scanner.undeclared |= !number.is_exact(value);
                values.push(value);
            }
            Kind::String(texts, rules) => {
                let start = texts.bytes.len();
                scanner.string()?.append(&mut texts.bytes)?;
                rules.check(&texts.bytes[start..])?;
                texts.close()?;
            }
            Kind::Raw(texts, parted) => {
                let start = scanner.at();
                scanner.skip_unique(depth)?;
                scanner.undeclared |= *parted;
                texts.bytes.extend_from_slice(scanner.since(start));
                texts.close()?;
            }
            Kind::Choice(texts, columns) => {
                let start = scanner.at();
                choose(scanner, columns, depth)?;
                texts.bytes.extend_from_slice(scanner.since(start));
                texts.close()?;
            }
            Kind::Instant(values, rules) => return timed(scanner, values, rules, times::instant),
            Kind::Date(values, rules) => return timed(scanner, values, rules, times::date),
            Kind::List(list) => list.read(scanner, depth + 1)?,
            Kind::Map(map) => map.read(scanner, depth + 1)?,
            Kind::Object(object) => object.read(scanner, depth + 1)?,
        }
        Ok(true)
    }
}

/// Past a value that one of some columns takes.
fn choose(scanner: &mut Scanner<'_>, columns: &mut [Column], depth: usize) -> Scanned<()> {
    let (start, undeclared, first) = (scanner.at(), scanner.undeclared, scanner.peek());
    for column in columns.iter_mut().filter(|column| column.begins(first)) {
        let found = column.read(scanner, depth);
        column.truncate(0);
        // All of the value is kept, whatever these columns would hold of it.
        scanner.undeclared = undeclared;
        if found.is_ok() {
            if matches!(first, b'{' | b'[') {
                // Columns pass over what they do not hold.
                scanner.back(start);
                scanner.skip_unique(depth)?;
            }
            return Ok(());
        }
        scanner.back(start);
    }
    Err(Refused)
}

/// Read a text as `parse` does; what that is not all of is kept elsewhere.
fn timed<T: Default>(
    scanner: &mut Scanner<'_>,
    values: &mut Vec<T>,
    rules: &Strings,
    parse: fn(&[u8]) -> Option<(T, bool)>,
) -> Scanned<bool> {
    let text = scanner.string()?.text()?;
    rules.check(&text)?;
    let (value, whole) = parse(&text).map_or((None, false), |(value, whole)| (Some(value), whole));
    scanner.undeclared |= !whole;
    let there = value.is_some();
    values.push(value.unwrap_or_default());
    Ok(there)
}

impl List {
    fn read(&mut self, scanner: &mut Scanner<'_>, depth: usize) -> Scanned<()> {
        let before = self.ends.end();
        let mut more = scanner.open(b'[', b']', depth)?;
        while more {
            scanner.space();
            self.item.read(scanner, depth)?;
            more = scanner.more(b']')?;
        }
        let end = self.item.len();
        self.sizes.check(end - before)?;
        self.ends.push(end)
    }
}

impl Map {
    fn read(&mut self, scanner: &mut Scanner<'_>, depth: usize) -> Scanned<()> {
        let before = self.ends.end();
        let mut more = scanner.open(b'{', b'}', depth)?;
        while more {
            scanner.space();
            scanner.string()?.append(&mut self.names.bytes)?;
            self.names.close()?;
            scanner.colon()?;
            self.value.read(scanner, depth)?;
            more = scanner.more(b'}')?;
        }
        let end = self.value.len();
        self.sizes.check(end - before)?;
        self.names.check_distinct(before)?;
        self.ends.push(end)
    }
}

impl Object {
    pub fn new(members: Vec<Member>, closed: bool) -> Self {
        let numbers = if members.len() > FEW {
            members
                .iter()
                .enumerate()
                .map(|(number, member)| (member.key.name().to_vec(), number))
                .collect()
        } else {
            HashMap::new()
        };
        let order = (0..members.len()).collect();
        Object {
            rows: 0,
            closed,
            members,
            numbers,
            order,
        }
    }

    fn read(&mut self, scanner: &mut Scanner<'_>, depth: usize) -> Scanned<()> {
        let (mut place, mut found) = (0, 0);
        let mut more = scanner.open(b'{', b'}', depth)?;
        while more {
            scanner.space();
            match self.name(scanner, place)? {
                Some(number) => {
                    let column = &mut self.members[number].column;
                    // One row more than the object has: the member was there already.
                    if column.len() > self.rows {
                        return Err(Refused);
                    }
                    column.read(scanner, depth)?;
                    found += 1;
                }
                None => {
                    scanner.undeclared = true;
                    scanner.skip(depth)?;
                }
            }
            place += 1;
            more = scanner.more(b'}')?;
        }
        if found < self.members.len() {
            self.complete()?;
        }
        self.rows += 1;
        Ok(())
    }

    /// Past a name and its colon; the number of the member it is of, if it is of any.
    #[inline(always)]
    fn name(&mut self, scanner: &mut Scanner<'_>, place: usize) -> Scanned<Option<usize>> {
        if let Some(number) = self.order.get(place) {
            if scanner.key(&self.members[*number].key) {
                scanner.space();
                return Ok(Some(*number));
            }
        }
        let text = scanner.string()?.text()?;
        scanner.colon()?;
        let found = self.number(&text);
        match (found, self.order.get_mut(place)) {
            (Some(number), Some(guess)) => *guess = number,
            (None, _) if self.closed => return Err(Refused),
            _ => {}
        }
        Ok(found)
    }

    /// Which member a name is of, if it is of any.
    pub fn number(&self, name: &[u8]) -> Option<usize> {
        if self.members.len() > FEW {
            self.numbers.get(name).copied()
        } else {
            self.members.iter().position(|member| member.key.name() == name)
        }
    }

    /// Rows without a value for members that did not come.
    fn complete(&mut self) -> Scanned<()> {
        for member in &mut self.members {
            if member.column.len() == self.rows {
                if member.required {
                    return Err(Refused);
                }
                member.column.skip();
            }
        }
        Ok(())
    }

    fn skip(&mut self) {
        for member in &mut self.members {
            member.column.skip();
        }
        self.rows += 1;
    }

    fn reserve(&mut self, rows: usize) {
        for member in &mut self.members {
            member.column.reserve(rows);
        }
    }

    /// Without rows, as its members are.
    pub fn clear(&mut self) {
        self.rows = 0;
    }

    fn truncate(&mut self, rows: usize) {
        for member in &mut self.members {
            member.column.truncate(rows);
        }
        self.rows = self.rows.min(rows);
    }
}

/// Read one payload whole, and of objects that allow it what has no column; what is refused leaves no trace.
pub fn read(column: &mut Column, rest: &mut Rest, payload: &str) -> Scanned<()> {
    let rows = column.len();
    let mut scanner = Scanner::new(payload);
    scanner.space();
    let found = column
        .read(&mut scanner, 0)
        .and_then(|()| scanner.end())
        .and_then(|()| rest.read(payload, scanner.undeclared));
    if found.is_err() {
        column.truncate(rows);
    }
    found
}
