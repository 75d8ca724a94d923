//! The decoder of payloads that Python sees.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

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
        // Nothing is left of the last time, unless that ended in the middle.
        self.column.truncate(0);
        self.column.reserve((offsets.len() / 4).saturating_sub(1));
        let mut refused = Vec::new();
        let mut ends = offsets
            .chunks_exact(4)
            .map(|end| i32::from_ne_bytes([end[0], end[1], end[2], end[3]]));
        let mut start = place(ends.next().unwrap_or(0))?;
        for (number, end) in ends.enumerate() {
            let end = place(end)?;
            let payload = data.get(start..end).ok_or_else(beyond)?;
            if payloads::read(&mut self.column, payload).is_err() {
                refused.push(number);
            }
            start = end;
        }
        Ok((arrays::array(&mut self.column, py)?, refused))
    }
}

fn place(offset: i32) -> PyResult<usize> {
    usize::try_from(offset).map_err(|_| beyond())
}

fn beyond() -> PyErr {
    PyValueError::new_err("an offset lies outside of the data")
}
