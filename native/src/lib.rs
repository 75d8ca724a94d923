//! What `signalbook.pipeline` has done natively: it works without this module too, and slower.
#![forbid(unsafe_code)]

mod json;

use pyo3::prelude::*;

#[pymodule]
fn signalbook_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("MAX_DEPTH", json::MAX_DEPTH)
}
