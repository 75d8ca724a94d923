//! Envelopes of structured CloudEvents in JSON, into columns. What is not taken is not wrong, but left to another way.

use std::panic::{catch_unwind, AssertUnwindSafe};

use pyo3::buffer::{PyBuffer, ReadOnlyCell};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrays::{self, Batch};
use crate::base64;
use crate::columns::{Bits, Texts};
use crate::json::{Inside, Key, Refused, Scanned, Scanner};

const DATA: usize = 0;
const BASE64: usize = 1;
const FIRST: usize = 2;
/// Sets of members are bits of a word.
const MOST_MEMBERS: usize = 128;

type Bounds<'a> = &'a [ReadOnlyCell<i64>];
/// Of the texts of a column what each was: a text (0), a truth (1) or a number (2); nothing where all are texts.
type Kinds<'py> = Option<Bound<'py, PyBytes>>;
/// Where data begins and ends, in a block of its own if that is there, and of which events it was in Base64 (1) or is
/// not there (2), if that is so of any.
type Data<'py> = (
    Bound<'py, PyBytes>,
    Bound<'py, PyBytes>,
    Option<Bound<'py, PyBytes>>,
    Option<Bound<'py, PyBytes>>,
);
type Read<'py> = (Vec<usize>, Bound<'py, PyBytes>, Vec<Kinds<'py>>, Data<'py>);

/// Takes apart events that have no other attributes than these.
#[pyclass(frozen)]
pub struct Envelopes {
    /// Of all members: `data`, `data_base64`, attributes, extensions.
    names: Vec<Key>,
    /// Where extensions begin.
    extensions: usize,
}

#[pymethods]
impl Envelopes {
    /// Values of attributes are texts, those of extensions also truths and numbers.
    #[new]
    fn new(attributes: Vec<String>, extensions: Vec<String>) -> PyResult<Self> {
        let mut names = vec![Key::new("data"), Key::new("data_base64")];
        names.extend(attributes.iter().map(|name| Key::new(name)));
        let first = names.len();
        names.extend(extensions.iter().map(|name| Key::new(name)));
        if names.len() > MOST_MEMBERS {
            return Err(PyValueError::new_err("too many attributes"));
        }
        Ok(Envelopes {
            names,
            extensions: first,
        })
    }

    /// Of the messages that lie in a block from `starts` to `ends` the numbers of those that are not taken; and of the
    /// others columns of attributes and extensions, and where their data is.
    fn read<'py>(
        &self,
        py: Python<'py>,
        block: &[u8],
        starts: PyBuffer<i64>,
        ends: PyBuffer<i64>,
    ) -> PyResult<Read<'py>> {
        let odd = || PyValueError::new_err("bounds are no arrays");
        let starts = starts.as_slice(py).ok_or_else(odd)?;
        let ends = ends.as_slice(py).ok_or_else(odd)?;
        let found = catch_unwind(AssertUnwindSafe(|| self.columns(block, starts, ends)));
        let (refused, data, mut members) = found.map_err(|_| PyValueError::new_err("a fault in this module"))?;
        let mut batch = Batch::default();
        let kinds = members.drain(FIRST..).map(|member| member.finish(&mut batch, py));
        let kinds = kinds.collect();
        let rows = starts.len() - refused.len();
        Ok((refused, batch.finish(rows, py)?, kinds, data.finish(py)?))
    }
}

impl Envelopes {
    fn columns(&self, block: &[u8], starts: Bounds<'_>, ends: Bounds<'_>) -> (Vec<usize>, Spans, Vec<Member>) {
        let mut members: Vec<Member> = self.names.iter().map(|_| Member::of(starts.len())).collect();
        let mut data = Spans::default();
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
            let found = found.and_then(|()| event.append(&mut members));
            if found.and_then(|()| data.push(event.values[DATA], block)).is_err() {
                let taken = number - refused.len();
                members.iter_mut().for_each(|member| member.truncate(taken));
                data.truncate(taken);
                refused.push(number);
            }
        }
        (refused, data, members)
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
        Ok(())
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

    fn append(&self, members: &mut [Member]) -> Scanned<()> {
        let mut found = self.values.iter().zip(members).enumerate();
        found.try_for_each(|(place, (value, member))| match place {
            DATA | BASE64 => Ok(()),
            _ => member.push(*value),
        })
    }
}

/// Past a value of which only the end is looked for: if it is none, its reader will see.
fn data<'a>(scanner: &mut Scanner<'a>) -> Scanned<Inside<'a>> {
    let start = scanner.at();
    match scanner.peek() {
        b'{' | b'[' => scanner.nested()?,
        b'"' => drop(scanner.string()?),
        _ => word(scanner),
    }
    let raw = scanner.since(start);
    Ok(Inside { raw, escaped: false })
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
            Value::Bytes(_) => return Err(Refused),
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

    fn finish<'py>(mut self, batch: &mut Batch, py: Python<'py>) -> Kinds<'py> {
        let kinds = (!self.odd.is_empty()).then(|| PyBytes::new(py, &self.kinds()));
        batch.column(self.texts.ends.len(), self.valid);
        batch.texts(&mut self.texts);
        kinds
    }
}

/// Where the data of events is: in their block, unless one has it in Base64, and then all in a block of their own.
#[derive(Default)]
struct Spans {
    starts: Vec<i64>,
    ends: Vec<i64>,
    own: Option<Vec<u8>>,
    /// Which have it otherwise than as it is, and how.
    others: Vec<(usize, u8)>,
}

const ENCODED: u8 = 1;
const ABSENT: u8 = 2;

impl Spans {
    #[inline(always)]
    fn push(&mut self, value: Value<'_>, block: &[u8]) -> Scanned<()> {
        let (start, end) = match (value, &mut self.own) {
            (Value::Text(text), None) => {
                let start = text.raw.as_ptr() as usize - block.as_ptr() as usize;
                (start, start + text.raw.len())
            }
            (Value::Text(text), Some(own)) => {
                own.extend_from_slice(text.raw);
                (own.len() - text.raw.len(), own.len())
            }
            (Value::Bytes(text), _) => {
                let own = self.moved(block);
                let start = own.len();
                base64::decode_strictly(&text.text()?, own)?;
                let end = own.len();
                self.others.push((self.starts.len(), ENCODED));
                (start, end)
            }
            (Value::Unset, own) => {
                self.others.push((self.starts.len(), ABSENT));
                let end = own.as_ref().map_or(0, Vec::len);
                (end, end)
            }
            _ => return Err(Refused),
        };
        self.starts.push(start as i64);
        self.ends.push(end as i64);
        Ok(())
    }

    /// The block of their own, into which those before are copied.
    fn moved(&mut self, block: &[u8]) -> &mut Vec<u8> {
        let places = self.starts.iter_mut().zip(&mut self.ends);
        self.own.get_or_insert_with(|| {
            let mut own = Vec::with_capacity(block.len());
            for (start, end) in places {
                own.extend_from_slice(&block[*start as usize..*end as usize]);
                (*start, *end) = ((own.len() as i64) - (*end - *start), own.len() as i64);
            }
            own
        })
    }

    fn truncate(&mut self, rows: usize) {
        self.starts.truncate(rows);
        self.ends.truncate(rows);
        self.others.retain(|(row, _)| *row < rows);
        if let Some(own) = &mut self.own {
            own.truncate(self.ends.last().map_or(0, |end| *end as usize));
        }
    }

    fn finish<'py>(self, py: Python<'py>) -> PyResult<Data<'py>> {
        let mut others = vec![0; self.starts.len()];
        self.others.iter().for_each(|(row, how)| others[*row] = *how);
        Ok((
            arrays::longs(&self.starts, py)?,
            arrays::longs(&self.ends, py)?,
            self.own.map(|own| PyBytes::new(py, &own)),
            (!self.others.is_empty()).then(|| PyBytes::new(py, &others)),
        ))
    }
}
