//! What `signalbook.pipeline` has done natively: it works without this module too, and slower.
#![forbid(unsafe_code)]

mod arrays;
mod columns;
mod decoder;
mod envelopes;
mod json;
mod patterns;
mod payloads;
mod program;
mod rules;

use pyo3::prelude::*;

#[pymodule]
fn signalbook_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<envelopes::Envelopes>()?;
    module.add_class::<decoder::Decoder>()
}
