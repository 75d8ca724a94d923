//! Finished columns for Python: a record batch as Arrow's IPC format has it, which Arrow takes in one step, in place,
//! however many columns it has.

use std::mem::take;

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::columns::{Bits, Offsets, Texts};
use crate::payloads::{Column, Kind};

/// Buffers begin at multiples of this.
const ALIGNED: usize = 64;
/// What comes before an encapsulated message: its mark, and the length of the metadata.
const PREFIX: usize = 8;
/// The metadata but for the nodes and buffers it lists.
const FIXED: usize = 96;
/// Bytes of a node, and of a buffer, there.
const LISTED: usize = 16;

/// The values of a buffer.
pub enum Buffer {
    Absent,
    Bytes(Vec<u8>),
    Ints(Vec<i32>),
    Longs(Vec<i64>),
    Floats(Vec<f32>),
    Doubles(Vec<f64>),
    Decimals(Vec<i128>),
}

impl Buffer {
    fn size(&self) -> usize {
        match self {
            Buffer::Absent => 0,
            Buffer::Bytes(values) => values.len(),
            Buffer::Ints(values) => values.len() * 4,
            Buffer::Floats(values) => values.len() * 4,
            Buffer::Longs(values) => values.len() * 8,
            Buffer::Doubles(values) => values.len() * 8,
            Buffer::Decimals(values) => values.len() * 16,
        }
    }

    fn write(&self, out: &mut [u8]) {
        match self {
            Buffer::Absent => {}
            Buffer::Bytes(values) => out.copy_from_slice(values),
            Buffer::Ints(values) => words(values, i32::to_ne_bytes, out),
            Buffer::Floats(values) => words(values, f32::to_ne_bytes, out),
            Buffer::Longs(values) => words(values, i64::to_ne_bytes, out),
            Buffer::Doubles(values) => words(values, f64::to_ne_bytes, out),
            Buffer::Decimals(values) => words(values, i128::to_ne_bytes, out),
        }
    }
}

fn words<T: Copy, const N: usize>(values: &[T], bytes: fn(T) -> [u8; N], out: &mut [u8]) {
    for (place, value) in out.chunks_exact_mut(N).zip(values) {
        place.copy_from_slice(&bytes(*value));
    }
}

/// The columns of a batch, in the order in which IPC lists what they are made of: each before its children.
#[derive(Default)]
pub struct Batch {
    /// Of each column how many rows it has, and how many of them are null.
    nodes: Vec<(usize, usize)>,
    buffers: Vec<Buffer>,
}

impl Batch {
    /// Begin a column: its rows, and which of them are there.
    pub fn column(&mut self, rows: usize, valid: Bits) {
        let nulls = valid.zeros();
        self.nodes.push((rows, nulls));
        self.buffer(if nulls > 0 {
            Buffer::Bytes(valid.into_inner())
        } else {
            Buffer::Absent
        });
    }

    pub fn buffer(&mut self, buffer: Buffer) {
        self.buffers.push(buffer);
    }

    pub fn offsets(&mut self, ends: &mut Offsets) {
        self.buffer(Buffer::Ints(take(ends).into_inner()));
    }

    pub fn texts(&mut self, texts: &mut Texts) {
        let (ends, bytes) = texts.take();
        self.buffer(Buffer::Ints(ends));
        self.buffer(Buffer::Bytes(bytes));
    }

    /// A column of texts that are all null, so many.
    pub fn nothing(&mut self, rows: usize) {
        self.nodes.push((rows, rows));
        self.buffer(Buffer::Bytes(vec![0; (rows + 7) / 8]));
        self.buffer(Buffer::Ints(vec![0; rows + 1]));
        self.buffer(Buffer::Absent);
    }

    /// The entries of maps, which are their names and, as the next column, their values.
    pub fn entries(&mut self, names: &mut Texts) {
        let rows = names.ends.len();
        self.column(rows, Bits::default());
        self.column(rows, Bits::default());
        self.texts(names);
    }

    /// All of it as an encapsulated message of so many rows.
    pub fn finish(self, rows: usize, py: Python<'_>) -> PyResult<Bound<'_, PyBytes>> {
        let listed = FIXED + LISTED * (self.nodes.len() + self.buffers.len());
        let first = aligned(PREFIX + listed);
        let mut end = first;
        let mut places = Vec::with_capacity(self.buffers.len());
        for buffer in &self.buffers {
            places.push((end - first, buffer.size()));
            end = aligned(end + buffer.size());
        }
        let metadata = self.metadata(rows, &places, end - first);
        PyBytes::new_with(py, end, |out| {
            out[..4].copy_from_slice(&u32::MAX.to_le_bytes());
            out[4..PREFIX].copy_from_slice(&((first - PREFIX) as u32).to_le_bytes());
            out[PREFIX..PREFIX + listed].copy_from_slice(&metadata);
            for (buffer, (start, size)) in self.buffers.iter().zip(&places) {
                buffer.write(&mut out[first + start..first + start + size]);
            }
            Ok(())
        })
    }

    /// The tables `Message` and `RecordBatch` of Arrow's Message.fbs, in FlatBuffers. All that varies is how long the
    /// two vectors at the end are, so that everything before them lies at places that are known.
    fn metadata(&self, rows: usize, places: &[(usize, usize)], body: usize) -> Vec<u8> {
        let mut out = vec![0; FIXED + LISTED * (self.nodes.len() + self.buffers.len())];
        let buffers = 88 + LISTED * self.nodes.len() + 4;
        let mut words = |values: &[(usize, u64)], width: usize| {
            for (place, value) in values {
                out[*place..place + width].copy_from_slice(&value.to_le_bytes()[..width]);
            }
        };
        // The root; `Message` at 16, with its vtable at 4: of version 5, with a header that is a RecordBatch.
        words(
            &[(4, 12), (6, 24), (8, 4), (10, 6), (12, 16), (14, 8), (20, 4), (22, 3)],
            2,
        );
        words(&[(0, 16), (16, 12), (32, 24)], 4);
        // `RecordBatch` at 56, with its vtable at 40.
        words(&[(40, 10), (42, 24), (44, 8), (46, 4), (48, 16)], 2);
        words(&[(56, 16), (60, 24), (72, buffers as u64 - 72)], 4);
        words(&[(24, body as u64), (64, rows as u64)], 8);
        words(
            &[(84, self.nodes.len() as u64), (buffers, self.buffers.len() as u64)],
            4,
        );
        let pairs = (88..).step_by(LISTED).zip(&self.nodes);
        for (place, (one, other)) in pairs.chain((buffers + 4..).step_by(LISTED).zip(places)) {
            words(&[(place, *one as u64), (place + 8, *other as u64)], 8);
        }
        out
    }
}

/// Numbers alone.
pub fn longs<'py>(values: &[i64], py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, values.len() * 8, |out| {
        words(values, i64::to_ne_bytes, out);
        Ok(())
    })
}

fn aligned(size: usize) -> usize {
    (size + ALIGNED - 1) / ALIGNED * ALIGNED
}

/// Add all rows of a column, which keeps none.
pub fn add(column: &mut Column, batch: &mut Batch) {
    let rows = column.len();
    let valid = take(&mut column.valid);
    if matches!(column.kind, Kind::Null) {
        return batch.nothing(rows);
    }
    batch.column(rows, valid);
    match &mut column.kind {
        Kind::Null => {}
        Kind::Bool(values, _) => batch.buffer(Buffer::Bytes(take(values).into_inner())),
        Kind::Integer(values, _) => batch.buffer(Buffer::Longs(take(values))),
        Kind::Float(values, _) => batch.buffer(Buffer::Doubles(take(values))),
        Kind::Instant(values, _) => batch.buffer(Buffer::Longs(take(values))),
        Kind::Date(values, _) => batch.buffer(Buffer::Ints(take(values))),
        Kind::String(found, _) | Kind::Raw(found, _) | Kind::Choice(found, _) => batch.texts(found),
        Kind::List(list) => {
            batch.offsets(&mut list.ends);
            add(&mut list.item, batch);
        }
        Kind::Map(map) => {
            batch.offsets(&mut map.ends);
            batch.entries(&mut map.names);
            add(&mut map.value, batch);
        }
        Kind::Object(object) => {
            for member in &mut object.members {
                add(&mut member.column, batch);
            }
            object.clear();
        }
    }
}
