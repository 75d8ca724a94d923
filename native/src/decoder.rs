//! The decoder of payloads that Python sees.

use std::panic::{catch_unwind, AssertUnwindSafe};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::json::Refused;
use crate::{arrays, payloads, program};

/// Decodes JSON payloads of one schema into columns.
#[pyclass]
pub struct Decoder {
    column: payloads::Column,
}

#[pymethods]
impl Decoder {
    #[new]
    fn new(program: &Bound<'_, PyTuple>) -> PyResult<Self> {
        let column = program::column(program, false)?;
        Ok(Decoder { column })
    }

    /// The column of those payloads that are taken, and the numbers of the others. Payload `n` is the bytes of `data`
    /// from the `n`th of `offsets`, 32-bit integers of this machine, up to the next.
    fn read<'py>(
        &mut self,
        py: Python<'py>,
        data: &[u8],
        offsets: &[u8],
    ) -> PyResult<(Bound<'py, PyTuple>, Vec<usize>)> {
        // A panic would be an exception that hardly anybody catches.
        let found = catch_unwind(AssertUnwindSafe(|| self.rows(data, offsets)));
        let refused = found.unwrap_or_else(|_| Err(PyValueError::new_err("a fault in this module")))?;
        Ok((arrays::array(&mut self.column, py)?, refused))
    }
}

impl Decoder {
    fn rows(&mut self, data: &[u8], offsets: &[u8]) -> PyResult<Vec<usize>> {
        // Nothing is left of the last time, unless that ended in the middle.
        self.column.truncate(0);
        self.column.reserve((offsets.len() / 4).saturating_sub(1));
        let mut refused = Vec::new();
        let whole = std::str::from_utf8(data).ok();
        let mut ends = offsets
            .chunks_exact(4)
            .map(|end| i32::from_ne_bytes([end[0], end[1], end[2], end[3]]));
        let mut start = place(ends.next().unwrap_or(0))?;
        for (number, end) in ends.enumerate() {
            let end = place(end)?;
            let payload = data.get(start..end).ok_or_else(beyond)?;
            let text = match whole {
                Some(text) => text.get(start..end),
                None => std::str::from_utf8(payload).ok(),
            };
            if text
                .ok_or(Refused)
                .and_then(|text| payloads::read(&mut self.column, text))
                .is_err()
            {
                refused.push(number);
            }
            start = end;
        }
        Ok(refused)
    }
}

fn place(offset: i32) -> PyResult<usize> {
    usize::try_from(offset).map_err(|_| beyond())
}

fn beyond() -> PyErr {
    PyValueError::new_err("an offset lies outside of the data")
}
