//! Envelopes of structured CloudEvents in JSON, into columns. What is not taken is not wrong, but left to another way.

use std::panic::{catch_unwind, AssertUnwindSafe};

use pyo3::buffer::{PyBuffer, ReadOnlyCell};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::arrays;
use crate::base64;
use crate::columns::{Bits, Texts};
use crate::json::{Inside, Key, Refused, Scanned, Scanner, MAX_DEPTH};
use crate::payloads::{Column, Kind};

const SPECVERSION: usize = 0;
const DATA: usize = 1;
const BASE64: usize = 2;
const FIRST: usize = 3;
/// Sets of members are bits of a word.
const MOST_MEMBERS: usize = 128;

type Bounds<'a> = &'a [ReadOnlyCell<i64>];
type Array<'py> = Bound<'py, PyTuple>;
/// A column of texts, and for each what it was: a text (0), a truth (1), a number (2) or bytes (3); nothing where all are
/// texts.
type Mixed<'py> = (Array<'py>, Option<Bound<'py, PyBytes>>);

/// Takes apart events that have no other attributes than these.
#[pyclass(frozen)]
pub struct Envelopes {
    /// Of all members: `specversion`, `data`, `data_base64`, attributes, extensions.
    names: Vec<Key>,
    /// Where extensions begin.
    extensions: usize,
    needed: usize,
}

#[pymethods]
impl Envelopes {
    /// The first `needed` attributes are those that each event has.
    #[new]
    fn new(attributes: Vec<String>, needed: usize, extensions: Vec<String>) -> PyResult<Self> {
        let mut names = vec![Key::new("specversion"), Key::new("data"), Key::new("data_base64")];
        names.extend(attributes.iter().map(|name| Key::new(name)));
        let first = names.len();
        names.extend(extensions.iter().map(|name| Key::new(name)));
        if names.len() > MOST_MEMBERS || FIRST + needed > first {
            return Err(PyValueError::new_err("too many attributes"));
        }
        Ok(Envelopes {
            names,
            extensions: first,
            needed,
        })
    }

    /// Of the messages that lie in a block from `starts` to `ends` the numbers of those that are not taken; and columns
    /// of the others: data (that in Base64 as its bytes), attributes, extensions.
    fn read<'py>(
        &self,
        py: Python<'py>,
        block: &[u8],
        starts: PyBuffer<i64>,
        ends: PyBuffer<i64>,
    ) -> PyResult<(Vec<usize>, Vec<Mixed<'py>>)> {
        let odd = || PyValueError::new_err("bounds are no arrays");
        let starts = starts.as_slice(py).ok_or_else(odd)?;
        let ends = ends.as_slice(py).ok_or_else(odd)?;
        let found = catch_unwind(AssertUnwindSafe(|| self.columns(block, starts, ends)));
        let (refused, mut members) = found.map_err(|_| PyValueError::new_err("a fault in this module"))?;
        let found = members.iter_mut().enumerate();
        let found = found.filter(|(place, _)| *place == DATA || *place >= FIRST);
        let columns = found.map(|(_, member)| member.finish(py)).collect::<PyResult<_>>()?;
        Ok((refused, columns))
    }
}

impl Envelopes {
    fn columns(&self, block: &[u8], starts: Bounds<'_>, ends: Bounds<'_>) -> (Vec<usize>, Vec<Member>) {
        let mut members: Vec<Member> = self.names.iter().map(|_| Member::of(starts.len())).collect();
        members[DATA].texts.bytes.reserve(block.len());
        let mut event = Event::of(self);
        let mut refused = Vec::new();
        let whole = std::str::from_utf8(block).ok();
        for (number, (start, end)) in starts.iter().zip(ends).enumerate() {
            let bounds = start.get() as usize..end.get() as usize;
            let text = match whole {
                Some(text) => text.get(bounds),
                None => block.get(bounds).and_then(|raw| std::str::from_utf8(raw).ok()),
            };
            let found = text.ok_or(Refused).and_then(|text| event.read(text));
            if found.and_then(|()| event.append(&mut members)).is_err() {
                members
                    .iter_mut()
                    .for_each(|member| member.truncate(number - refused.len()));
                refused.push(number);
            }
        }
        (refused, members)
    }
}

/// What a member is, as far as one may be.
#[derive(Clone, Copy)]
enum Value<'a> {
    Unset,
    Text(Inside<'a>),
    Truth(bool),
    Whole(i64),
    /// Bytes in Base64.
    Bytes(Inside<'a>),
}

/// The members of one event after another, most of which have the same in the same order.
struct Event<'a> {
    envelopes: &'a Envelopes,
    values: Vec<Value<'a>>,
    order: Vec<usize>,
}

impl<'a> Event<'a> {
    fn of(envelopes: &'a Envelopes) -> Self {
        Event {
            envelopes,
            values: vec![Value::Unset; envelopes.names.len()],
            order: Vec::new(),
        }
    }

    fn read(&mut self, text: &'a str) -> Scanned<()> {
        let mut scanner = Scanner::new(text);
        self.values.fill(Value::Unset);
        scanner.space();
        let mut more = scanner.open(b'{', b'}', 1)?;
        let (mut seen, mut place) = (0_u128, 0);
        while more {
            scanner.space();
            let member = self.member(&mut scanner, place)?;
            if seen & 1 << member != 0 {
                return Err(Refused);
            }
            seen |= 1 << member;
            place += 1;
            self.values[member] = self.value(&mut scanner, member)?;
            more = scanner.more(b'}')?;
        }
        scanner.end()?;
        if let Value::Text(text) = self.values[BASE64] {
            if seen & 1 << DATA != 0 {
                return Err(Refused);
            }
            self.values[DATA] = Value::Bytes(text);
        }
        self.complete()
    }

    /// Past a name and its colon: the number of the member, likely that which the event before had at this place.
    #[inline(always)]
    fn member(&mut self, scanner: &mut Scanner<'_>, place: usize) -> Scanned<usize> {
        let names = &self.envelopes.names;
        if let Some(member) = self.order.get(place) {
            if scanner.key(&names[*member]) {
                scanner.space();
                return Ok(*member);
            }
        }
        let name = scanner.string()?;
        // A name with an escape has a backslash, as none of these has.
        let member = names.iter().position(|known| known.name() == name.raw).ok_or(Refused)?;
        scanner.colon()?;
        self.order.truncate(place);
        self.order.push(member);
        Ok(member)
    }

    #[inline(always)]
    fn value(&self, scanner: &mut Scanner<'a>, member: usize) -> Scanned<Value<'a>> {
        match scanner.peek() {
            _ if member == DATA => data(scanner).map(Value::Text),
            b'"' => scanner.string().map(Value::Text),
            b'n' => scanner.word(b"null").map(|()| Value::Unset),
            _ if member < self.envelopes.extensions => Err(Refused),
            b't' => scanner.word(b"true").map(|()| Value::Truth(true)),
            b'f' => scanner.word(b"false").map(|()| Value::Truth(false)),
            _ => scanner.number()?.integer().map(Value::Whole),
        }
    }

    /// Whether all is there that has to be.
    fn complete(&self) -> Scanned<()> {
        let needed = &self.values[FIRST..FIRST + self.envelopes.needed];
        let there = needed.iter().all(|value| matches!(value, Value::Text(_)));
        let version = matches!(self.values[SPECVERSION], Value::Text(text) if text.raw == b"1.0");
        let data = matches!(self.values[DATA], Value::Text(_) | Value::Bytes(_));
        if there && version && data {
            Ok(())
        } else {
            Err(Refused)
        }
    }

    fn append(&self, members: &mut [Member]) -> Scanned<()> {
        let mut found = self.values.iter().zip(members).enumerate();
        found.try_for_each(|(place, (value, member))| match place {
            SPECVERSION | BASE64 => Ok(()),
            _ => member.push(*value),
        })
    }
}

/// Past a value of which only the end is looked for: if it is none, its reader will see.
fn data<'a>(scanner: &mut Scanner<'a>) -> Scanned<Inside<'a>> {
    let start = scanner.at();
    match scanner.peek() {
        b'{' | b'[' => nested(scanner)?,
        b'"' => drop(scanner.string()?),
        _ => word(scanner),
    }
    let raw = scanner.since(start);
    Ok(Inside { raw, escaped: false })
}

fn nested(scanner: &mut Scanner<'_>) -> Scanned<()> {
    let mut depth = 0;
    loop {
        match scanner.peek() {
            b'"' => {
                scanner.string()?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            0 => return Err(Refused),
            _ => {}
        }
        scanner.step();
        if depth == 0 {
            return Ok(());
        }
        if depth > MAX_DEPTH {
            return Err(Refused);
        }
    }
}

/// Past a number, `true`, `false` or `null`.
fn word(scanner: &mut Scanner<'_>) {
    while !matches!(scanner.peek(), b',' | b'}' | b' ' | b'\t' | b'\n' | b'\r' | 0) {
        scanner.step();
    }
}

/// The column of a member, and which of its values are no texts.
struct Member {
    texts: Texts,
    valid: Bits,
    odd: Vec<(usize, u8)>,
}

impl Member {
    fn of(rows: usize) -> Self {
        let mut texts = Texts::default();
        texts.ends.reserve(rows);
        Member {
            texts,
            valid: Bits::default(),
            odd: Vec::new(),
        }
    }

    #[inline(always)]
    fn push(&mut self, value: Value<'_>) -> Scanned<()> {
        let into = &mut self.texts.bytes;
        match value {
            Value::Unset => {}
            Value::Text(text) => text.append(into)?,
            Value::Bytes(text) => {
                base64::decode_strictly(&text.text()?, into)?;
                self.odd.push((self.valid.len(), 3));
            }
            Value::Truth(truth) => {
                into.extend_from_slice(if truth { b"true" } else { b"false" });
                self.odd.push((self.valid.len(), 1));
            }
            Value::Whole(number) => {
                into.extend_from_slice(number.to_string().as_bytes());
                self.odd.push((self.valid.len(), 2));
            }
        }
        self.valid.push(!matches!(value, Value::Unset));
        self.texts.close()
    }

    fn truncate(&mut self, rows: usize) {
        self.texts.truncate(rows);
        self.valid.truncate(rows);
        self.odd.retain(|(row, _)| *row < rows);
    }

    fn kinds(&self) -> Vec<u8> {
        let mut kinds = vec![0; self.valid.len()];
        for (row, kind) in &self.odd {
            kinds[*row] = *kind;
        }
        kinds
    }

    fn finish<'py>(&mut self, py: Python<'py>) -> PyResult<Mixed<'py>> {
        let kinds = (!self.odd.is_empty()).then(|| PyBytes::new(py, &self.kinds()));
        let mut column = Column {
            nullable: true,
            gaps: true,
            valid: std::mem::take(&mut self.valid),
            kind: Kind::Raw(std::mem::take(&mut self.texts), false),
        };
        Ok((arrays::array(&mut column, py)?, kinds))
    }
}
