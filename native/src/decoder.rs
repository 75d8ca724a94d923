//! The decoders of payloads that Python sees.
//!
//! Each gives the columns of those payloads that are taken, as a batch of `arrays`, and the numbers of the others.

use std::panic::{catch_unwind, AssertUnwindSafe};

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::arrays::{self, Batch};
use crate::columns::{Bits, Texts};
use crate::json::{Refused, Scanned};
use crate::rescue::{Held, Rest};
use crate::{avro, binary, faults, payloads, program, protobuf, protojson};

type Read<'py> = (Bound<'py, PyBytes>, Vec<usize>);

/// Payloads of one schema lie far apart, and each begins in memory that is in no cache. So many bytes of small ones are
/// touched before anything else is done with the first, so that the processor waits for all of them at once.
const AHEAD: usize = 8 * 1024;
/// What a payload takes of a cache at least, so that of empty ones there are not any number.
const LINE: usize = 64;

/// Payloads that lie in blocks: of one block after the other how many there are, and where each begins and ends in it.
#[derive(FromPyObject)]
pub struct Places<'py>(Vec<Bound<'py, PyBytes>>, PyBuffer<i64>, PyBuffer<i64>, PyBuffer<i64>);

/// Decodes JSON payloads of one schema into columns.
#[pyclass]
pub struct JsonDecoder {
    column: payloads::Column,
    rest: Rest,
}

#[pymethods]
impl JsonDecoder {
    #[new]
    fn new(program: &Bound<'_, PyTuple>, held: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let column = program::column(program, false)?;
        let rest = Rest::new(Held::new(held)?);
        Ok(JsonDecoder { column, rest })
    }

    /// The last column is what the others do not hold of objects, as JSON.
    fn read<'py>(&mut self, py: Python<'py>, payloads: Places<'py>) -> PyResult<Read<'py>> {
        let (column, rest) = (&mut self.column, &mut self.rest);
        // Nothing is left of the last time, unless that ended in the middle.
        column.truncate(0);
        rest.column.truncate(0);
        column.reserve(payloads.len());
        let refused = payloads.each(py, |raw| payloads::read(column, rest, text(raw)?))?;
        let (rows, mut batch) = (column.len(), Batch::default());
        arrays::add(column, &mut batch);
        arrays::add(&mut rest.column, &mut batch);
        Ok((batch.finish(rows, py)?, refused))
    }
}

/// Finds what JSON payloads of one schema violate.
#[pyclass(frozen)]
pub struct JsonFaults {
    column: payloads::Column,
}

#[pymethods]
impl JsonFaults {
    #[new]
    fn new(program: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let column = program::column(program, false)?;
        Ok(JsonFaults { column })
    }

    /// The column of keys that payloads have in common of which a validator says the same; nothing where that is not
    /// known.
    fn keys<'py>(&self, py: Python<'py>, payloads: Places<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let (mut keys, mut valid, mut batch) = (Texts::default(), Bits::default(), Batch::default());
        payloads.each(py, |raw| {
            let found = text(raw).and_then(|text| faults::find(&self.column, text, &mut keys.bytes));
            valid.push(found.is_ok());
            keys.close()
        })?;
        let rows = keys.ends.len();
        batch.column(rows, valid);
        batch.texts(&mut keys);
        batch.finish(rows, py)
    }
}

/// Decodes payloads of one Avro schema, in its binary encoding, into columns.
#[pyclass]
pub struct AvroDecoder {
    node: avro::Node,
    column: binary::Column,
}

#[pymethods]
impl AvroDecoder {
    #[new]
    fn new(program: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let (node, column) = avro::column(program, false)?;
        Ok(AvroDecoder { node, column })
    }

    fn read<'py>(&mut self, py: Python<'py>, payloads: Places<'py>) -> PyResult<Read<'py>> {
        let (node, column) = (&self.node, &mut self.column);
        column.truncate(0);
        column.reserve(payloads.len());
        let refused = payloads.each(py, |raw| avro::read(node, column, raw))?;
        finished(column, refused, py)
    }
}

/// Decodes Protobuf messages of one type into columns.
#[pyclass]
pub struct ProtobufDecoder {
    message: protobuf::Message,
    column: binary::Column,
}

#[pymethods]
impl ProtobufDecoder {
    #[new]
    fn new(program: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let (message, column) = protobuf::message(program, false)?;
        Ok(ProtobufDecoder { message, column })
    }

    fn read<'py>(&mut self, py: Python<'py>, payloads: Places<'py>) -> PyResult<Read<'py>> {
        let (message, column) = (&self.message, &mut self.column);
        column.truncate(0);
        column.reserve(payloads.len());
        let refused = payloads.each(py, |raw| protobuf::read(message, column, raw))?;
        finished(column, refused, py)
    }

    /// The same for payloads in Protobuf's JSON.
    fn read_json<'py>(&mut self, py: Python<'py>, payloads: Places<'py>) -> PyResult<Read<'py>> {
        let (message, column) = (&self.message, &mut self.column);
        column.truncate(0);
        column.reserve(payloads.len());
        let refused = payloads.each(py, |raw| protojson::read(message, column, text(raw)?))?;
        finished(column, refused, py)
    }
}

impl Places<'_> {
    /// How many there are, as far as they say.
    pub fn len(&self) -> usize {
        self.2.item_count()
    }

    /// Read payload after payload; the numbers of those that are refused.
    pub fn each<'a>(&'a self, py: Python<'a>, mut read: impl FnMut(&'a [u8]) -> Scanned<()>) -> PyResult<Vec<usize>> {
        let Places(blocks, counts, starts, ends) = self;
        let odd = || PyValueError::new_err("places are no arrays");
        let counts = counts.as_slice(py).ok_or_else(odd)?;
        let starts = starts.as_slice(py).ok_or_else(odd)?;
        let mut places = starts.iter().zip(ends.as_slice(py).ok_or_else(odd)?).enumerate();
        if counts.len() != blocks.len() || starts.len() != self.3.item_count() {
            return Err(beyond());
        }
        let mut refused = Vec::new();
        let (mut ahead, mut bytes) = (Vec::new(), 0);
        let mut clear = |ahead: &mut Vec<(usize, &'a [u8])>| {
            let all = ahead.drain(..);
            refused.extend(all.filter_map(|(number, raw)| read(raw).err().map(|_| number)));
        };
        let all = || {
            for (block, count) in blocks.iter().zip(counts) {
                let block = block.as_bytes();
                for (number, (start, end)) in places.by_ref().take(count.get() as usize) {
                    let raw = block.get(start.get() as usize..end.get() as usize).ok_or_else(beyond)?;
                    ahead.push((number, raw));
                    // One byte of each line is looked at, and cannot be left out, since it counts.
                    let touched = raw.iter().step_by(LINE).fold(0, |all, byte| all ^ byte);
                    bytes += raw.len().max(LINE) + usize::from(touched & 1);
                    if bytes >= AHEAD {
                        clear(&mut ahead);
                        bytes = 0;
                    }
                }
            }
            clear(&mut ahead);
            places.next().map_or(Ok(()), |_| Err(beyond()))
        };
        // A panic would be an exception that hardly anybody catches.
        let found = catch_unwind(AssertUnwindSafe(all));
        found.unwrap_or_else(|_| Err(PyValueError::new_err("a fault in this module")))?;
        Ok(refused)
    }
}

/// So many first bytes of each payload, one behind the other; what is shorter has zeros behind it.
#[pyfunction]
pub fn heads<'py>(py: Python<'py>, payloads: Places<'py>, width: usize) -> PyResult<Bound<'py, PyBytes>> {
    let mut found = Vec::with_capacity(payloads.len().saturating_mul(width));
    payloads.each(py, |raw| {
        let kept = raw.len().min(width);
        found.extend_from_slice(&raw[..kept]);
        found.resize(found.len() + width - kept, 0);
        Ok(())
    })?;
    Ok(PyBytes::new(py, &found))
}

fn finished<'py>(column: &mut binary::Column, refused: Vec<usize>, py: Python<'py>) -> PyResult<Read<'py>> {
    let (rows, mut batch) = (column.len(), Batch::default());
    column.add(&mut batch);
    Ok((batch.finish(rows, py)?, refused))
}

pub fn text(raw: &[u8]) -> Scanned<&str> {
    std::str::from_utf8(raw).map_err(|_| Refused)
}

fn beyond() -> PyErr {
    PyValueError::new_err("a payload lies outside of the data")
}
