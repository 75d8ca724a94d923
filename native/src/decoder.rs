//! The decoders of payloads that Python sees.
//!
//! Each gives the column of those payloads that are taken, and the numbers of the others. Payload `n` is the bytes of
//! `data` from the `n`th of `offsets`, 32-bit integers of this machine, up to the next.

use std::ops::Range;
use std::panic::{catch_unwind, AssertUnwindSafe};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::columns::{Bits, Texts};
use crate::json::{Refused, Scanned};
use crate::rescue::{Held, Rest};
use crate::{arrays, avro, binary, faults, payloads, program, protobuf, protojson};

type Read<'py> = (Bound<'py, PyTuple>, Vec<usize>);
type ReadWithRest<'py> = (Bound<'py, PyTuple>, Vec<usize>, Bound<'py, PyTuple>);

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

    /// Besides the columns of payloads, and who is refused, gives the column of what those do not hold.
    fn read<'py>(&mut self, py: Python<'py>, data: &[u8], offsets: &[u8]) -> PyResult<ReadWithRest<'py>> {
        let (column, rest) = (&mut self.column, &mut self.rest);
        // Nothing is left of the last time, unless that ended in the middle.
        column.truncate(0);
        rest.column.truncate(0);
        column.reserve((offsets.len() / 4).saturating_sub(1));
        let whole = std::str::from_utf8(data).ok();
        let refused = each(data, offsets, |bounds| {
            let text = match whole {
                Some(text) => text.get(bounds),
                None => data.get(bounds).and_then(|raw| std::str::from_utf8(raw).ok()),
            };
            payloads::read(column, rest, text.ok_or(Refused)?)
        })?;
        Ok((
            arrays::array(column, py)?,
            refused,
            arrays::array(&mut rest.column, py)?,
        ))
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
    fn keys<'py>(&self, py: Python<'py>, data: &[u8], offsets: &[u8]) -> PyResult<Bound<'py, PyTuple>> {
        let (mut keys, mut valid) = (Texts::default(), Bits::default());
        each(data, offsets, |bounds| {
            let text = std::str::from_utf8(&data[bounds]).map_err(|_| Refused);
            let found = text.and_then(|text| faults::find(&self.column, text, &mut keys.bytes));
            valid.push(found.is_ok());
            keys.close()
        })?;
        let mut column = payloads::Column {
            nullable: true,
            gaps: true,
            valid,
            kind: payloads::Kind::Raw(keys, false),
        };
        arrays::array(&mut column, py)
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

    fn read<'py>(&mut self, py: Python<'py>, data: &[u8], offsets: &[u8]) -> PyResult<Read<'py>> {
        let (node, column) = (&self.node, &mut self.column);
        column.truncate(0);
        let refused = each(data, offsets, |bounds| avro::read(node, column, &data[bounds]))?;
        Ok((column.finish(py)?, refused))
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

    fn read<'py>(&mut self, py: Python<'py>, data: &[u8], offsets: &[u8]) -> PyResult<Read<'py>> {
        let (message, column) = (&self.message, &mut self.column);
        column.truncate(0);
        let refused = each(data, offsets, |bounds| protobuf::read(message, column, &data[bounds]))?;
        Ok((column.finish(py)?, refused))
    }

    /// The same for payloads in Protobuf's JSON.
    fn read_json<'py>(&mut self, py: Python<'py>, data: &[u8], offsets: &[u8]) -> PyResult<Read<'py>> {
        let (message, column) = (&self.message, &mut self.column);
        column.truncate(0);
        let refused = each(data, offsets, |bounds| {
            let text = std::str::from_utf8(&data[bounds]).map_err(|_| Refused)?;
            protojson::read(message, column, text)
        })?;
        Ok((column.finish(py)?, refused))
    }
}

/// Read payload after payload; the numbers of those that are refused.
pub fn each(data: &[u8], offsets: &[u8], mut read: impl FnMut(Range<usize>) -> Scanned<()>) -> PyResult<Vec<usize>> {
    let mut ends = offsets
        .chunks_exact(4)
        .map(|end| i32::from_ne_bytes([end[0], end[1], end[2], end[3]]));
    let mut start = place(ends.next().unwrap_or(0), data)?;
    let mut refused = Vec::new();
    let all = || {
        for (number, end) in ends.enumerate() {
            let end = place(end, data)?;
            if start > end {
                return Err(beyond());
            }
            if read(start..end).is_err() {
                refused.push(number);
            }
            start = end;
        }
        Ok(())
    };
    // A panic would be an exception that hardly anybody catches.
    let found = catch_unwind(AssertUnwindSafe(all));
    found.unwrap_or_else(|_| Err(PyValueError::new_err("a fault in this module")))?;
    Ok(refused)
}

fn place(offset: i32, data: &[u8]) -> PyResult<usize> {
    let found = usize::try_from(offset).map_err(|_| beyond())?;
    if found > data.len() {
        return Err(beyond());
    }
    Ok(found)
}

fn beyond() -> PyErr {
    PyValueError::new_err("an offset lies outside of the data")
}
