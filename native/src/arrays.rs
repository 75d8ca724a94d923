//! Finished columns for Python: `(rows, nulls, buffers, children)`, as `pyarrow.Array.from_buffers` wants them.

use std::iter::once;
use std::mem::take;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use crate::columns::{Bits, Offsets, Texts};
use crate::payloads::{Column, Kind};

pub type Buffers<'py> = Vec<Option<Bound<'py, PyBytes>>>;

/// All rows of a column, which keeps none.
pub fn array<'py>(column: &mut Column, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
    let rows = column.len();
    let valid = take(&mut column.valid);
    let nulls = valid.zeros();
    let mut buffers: Buffers<'py> = vec![(nulls > 0).then(|| bits(&valid, py))];
    let children = PyList::empty(py);
    match &mut column.kind {
        Kind::Null => {}
        Kind::Bool(values, _) => buffers.push(Some(bits(&take(values), py))),
        Kind::Integer(values, _) => buffers.push(Some(words(take(values), i64::to_ne_bytes, py)?)),
        Kind::Float(values, _) => buffers.push(Some(words(take(values), f64::to_ne_bytes, py)?)),
        Kind::Instant(values, _) => buffers.push(Some(words(take(values), i64::to_ne_bytes, py)?)),
        Kind::Date(values, _) => buffers.push(Some(words(take(values), i32::to_ne_bytes, py)?)),
        Kind::String(found, _) | Kind::Raw(found, _) | Kind::Choice(found, _) => buffers.extend(texts(found, py)?),
        Kind::List(list) => {
            buffers.push(Some(offsets(&mut list.ends, py)?));
            children.append(array(&mut list.item, py)?)?;
        }
        Kind::Map(map) => {
            buffers.push(Some(offsets(&mut map.ends, py)?));
            children.append(keys(&mut map.names, py)?)?;
            children.append(array(&mut map.value, py)?)?;
        }
        Kind::Object(object) => {
            for member in &mut object.members {
                children.append(array(&mut member.column, py)?)?;
            }
            object.clear();
        }
    }
    if matches!(column.kind, Kind::Null) {
        return (rows, rows, Buffers::new(), children).into_pyobject(py);
    }
    (rows, nulls, buffers, children).into_pyobject(py)
}

pub fn bits<'py>(bits: &Bits, py: Python<'py>) -> Bound<'py, PyBytes> {
    PyBytes::new(py, bits.bytes())
}

pub fn offsets<'py>(ends: &mut Offsets, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
    words(take(ends).into_inner(), i32::to_ne_bytes, py)
}

pub fn texts<'py>(texts: &mut Texts, py: Python<'py>) -> PyResult<Buffers<'py>> {
    let bytes = PyBytes::new(py, &take(&mut texts.bytes));
    Ok(vec![Some(offsets(&mut texts.ends, py)?), Some(bytes)])
}

/// The column of the names of maps.
pub fn keys<'py>(names: &mut Texts, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
    let rows = names.ends.len();
    let buffers: Buffers<'py> = once(None).chain(texts(names, py)?).collect();
    (rows, 0, buffers, PyList::empty(py)).into_pyobject(py)
}

pub fn words<T: Copy, const N: usize>(
    values: Vec<T>,
    bytes: fn(T) -> [u8; N],
    py: Python<'_>,
) -> PyResult<Bound<'_, PyBytes>> {
    PyBytes::new_with(py, values.len() * N, |out| {
        for (place, value) in out.chunks_exact_mut(N).zip(values) {
            place.copy_from_slice(&bytes(value));
        }
        Ok(())
    })
}
