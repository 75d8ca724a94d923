//! What dead letters keep of messages beside their bodies, in JSON, as the slow path writes it: in ASCII.

use pyo3::buffer::{PyBuffer, ReadOnlyCell};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrays::Batch;
use crate::base64;
use crate::columns::{Bits, Texts};
use crate::decoder::Places;
use crate::json::{Refused, Scanned};

/// A column of the headers of each message, as pairs of name and value.
///
/// `names` are in JSON; each header has the number of its own in `codes`. `ends` are where those of each message end.
/// Values are bytes; if `readable` they are texts, with what is no UTF-8 as `\xff`.
#[pyfunction]
pub fn header_texts<'py>(
    py: Python<'py>,
    names: Vec<String>,
    codes: PyBuffer<i32>,
    ends: PyBuffer<i64>,
    values: Places<'py>,
    readable: bool,
) -> PyResult<Bound<'py, PyBytes>> {
    let odd = || PyValueError::new_err("codes and ends are no arrays");
    let mut lists = Lists::new(ends.as_slice(py).ok_or_else(odd)?);
    let mut codes = codes.as_slice(py).ok_or_else(odd)?.iter();
    let refused = values.each(py, |value| {
        lists.close()?;
        let name = codes.next().and_then(|code| names.get(code.get() as usize));
        lists.open();
        lists.column.bytes.extend_from_slice(name.ok_or(Refused)?.as_bytes());
        lists.column.bytes.push(b',');
        if readable {
            quote_bytes(value, &mut lists.column.bytes);
        } else {
            marked_bytes(value, &mut lists.column.bytes);
        }
        lists.column.bytes.push(b']');
        lists.headers += 1;
        Ok(())
    })?;
    let done = lists.close().is_ok() && lists.is_empty() && lists.column.ends.len() == lists.ends.len();
    if !refused.is_empty() || !done {
        return Err(PyValueError::new_err(
            "headers do not belong together, or are too large",
        ));
    }
    finished(lists.column, Bits::default(), py)
}

/// A column of these bytes.
#[pyfunction]
pub fn byte_texts<'py>(py: Python<'py>, values: Places<'py>) -> PyResult<Bound<'py, PyBytes>> {
    let mut column = Texts::default();
    let refused = values.each(py, |value| {
        marked_bytes(value, &mut column.bytes);
        column.close()
    })?;
    if refused.is_empty() {
        finished(column, Bits::default(), py)
    } else {
        Err(PyValueError::new_err("values are too large"))
    }
}

/// Lists of which each ends behind so many headers of all.
struct Lists<'a> {
    column: Texts,
    ends: &'a [ReadOnlyCell<i64>],
    headers: usize,
}

impl<'a> Lists<'a> {
    fn new(ends: &'a [ReadOnlyCell<i64>]) -> Self {
        Lists {
            column: Texts::default(),
            ends,
            headers: 0,
        }
    }

    fn is_empty(&self) -> bool {
        self.column.bytes.len() == self.column.ends.end()
    }

    /// Begin a header.
    fn open(&mut self) {
        let begun = if self.is_empty() { "[[" } else { ",[" };
        self.column.bytes.extend_from_slice(begun.as_bytes());
    }

    /// End all lists that end here.
    fn close(&mut self) -> Scanned<()> {
        while self.ends.get(self.column.ends.len()).map(|end| end.get()) == Some(self.headers as i64) {
            if self.is_empty() {
                self.column.bytes.push(b'[');
            }
            self.column.bytes.push(b']');
            self.column.close()?;
        }
        Ok(())
    }
}

/// One column alone.
fn finished(mut column: Texts, valid: Bits, py: Python<'_>) -> PyResult<Bound<'_, PyBytes>> {
    let (rows, mut batch) = (column.ends.len(), Batch::default());
    batch.column(rows, valid);
    batch.texts(&mut column);
    batch.finish(rows, py)
}

/// Add bytes, with a mark that tells them from texts.
pub fn marked_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"$bytes\":\"");
    base64::encode(bytes, out);
    out.extend_from_slice(b"\"}");
}

/// Add a text in quotes, all but ASCII escaped.
pub fn quote(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    escape(text, out);
    out.push(b'"');
}

/// Add bytes as the text they are.
fn quote_bytes(mut bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    while let Err(error) = std::str::from_utf8(bytes) {
        let (sound, rest) = bytes.split_at(error.valid_up_to());
        escape(&String::from_utf8_lossy(sound), out);
        let (odd, behind) = rest.split_at(error.error_len().unwrap_or(rest.len()));
        for byte in odd {
            out.extend_from_slice(format!("\\\\x{byte:02x}").as_bytes());
        }
        bytes = behind;
    }
    escape(&String::from_utf8_lossy(bytes), out);
    out.push(b'"');
}

fn escape(text: &str, out: &mut Vec<u8>) {
    for sign in text.chars() {
        match sign {
            '"' => out.extend_from_slice(b"\\\""),
            '\\' => out.extend_from_slice(b"\\\\"),
            ' '..='~' => out.push(sign as u8),
            '\u{8}' => out.extend_from_slice(b"\\b"),
            '\t' => out.extend_from_slice(b"\\t"),
            '\n' => out.extend_from_slice(b"\\n"),
            '\u{c}' => out.extend_from_slice(b"\\f"),
            '\r' => out.extend_from_slice(b"\\r"),
            _ => {
                for unit in sign.encode_utf16(&mut [0; 2]) {
                    out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
                }
            }
        }
    }
}
