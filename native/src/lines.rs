//! Where lines end.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::arrays;

const NEWLINE: u8 = b'\n';
/// Bytes that are compared at once, in the registers of any processor.
const STRIDE: usize = 64;
const WORD: usize = 8;
/// Bytes of a line, for room to begin with.
const LIKELY: usize = 256;

/// The places of all line feeds in a block, as 64-bit integers.
#[pyfunction]
pub fn line_ends<'py>(py: Python<'py>, block: &[u8]) -> PyResult<Bound<'py, PyBytes>> {
    arrays::longs(&ends(block), py)
}

fn ends(block: &[u8]) -> Vec<i64> {
    let mut found = Vec::with_capacity(block.len() / LIKELY);
    let (strides, rest) = block.split_at(block.len() - block.len() % STRIDE);
    for (number, stride) in strides.chunks_exact(STRIDE).enumerate() {
        // Most strides have none: to count them takes no branch, so that it is vectorized.
        let count: u8 = stride.iter().map(|byte| u8::from(*byte == NEWLINE)).sum();
        if count > 0 {
            add(stride, number * STRIDE, &mut found);
        }
    }
    add(rest, strides.len(), &mut found);
    found
}

fn add(bytes: &[u8], first: usize, found: &mut Vec<i64>) {
    for (number, part) in bytes.chunks(WORD).enumerate() {
        let mut word = [0; WORD];
        word[..part.len()].copy_from_slice(part);
        let mut marks = newlines(u64::from_le_bytes(word));
        while marks != 0 {
            found.push((first + number * WORD + marks.trailing_zeros() as usize / 8) as i64);
            marks &= marks - 1;
        }
    }
}

/// The highest bit of each byte that is a line feed, and no other.
fn newlines(word: u64) -> u64 {
    const LOW: u64 = u64::MAX / 255 * 0x7F;
    let other = word ^ (u64::MAX / 255 * NEWLINE as u64);
    !((other & LOW).wrapping_add(LOW) | other | LOW)
}
