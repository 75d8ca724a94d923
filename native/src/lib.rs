//! The fast path of `signalbook.pipeline`: envelopes and payloads of events into the buffers of Arrow arrays.
#![forbid(unsafe_code)]

mod amqp;
mod arrays;
mod avro;
mod avrotext;
mod base64;
mod binary;
mod columns;
mod decoder;
mod envelopes;
mod faults;
mod json;
mod lines;
mod patterns;
mod payloads;
mod program;
mod protobuf;
mod protojson;
mod records;
mod rescue;
mod rules;
mod times;
mod wellknown;

use pyo3::prelude::*;

/// What this module takes and gives, by number: the next whenever plans, arguments or results become others.
/// `signalbook.pipeline.native` holds the number that it knows.
const INTERFACE: u32 = 15;

#[pymodule]
fn signalbook_native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("INTERFACE", INTERFACE)?;
    module.add_class::<envelopes::Envelopes>()?;
    module.add_class::<decoder::JsonDecoder>()?;
    module.add_class::<decoder::JsonFaults>()?;
    module.add_class::<rescue::RescuedPaths>()?;
    module.add_class::<decoder::AvroDecoder>()?;
    module.add_class::<decoder::ProtobufDecoder>()?;
    module.add_function(wrap_pyfunction!(decoder::heads, module)?)?;
    module.add_function(wrap_pyfunction!(amqp::attribute_types, module)?)?;
    module.add_function(wrap_pyfunction!(amqp::section_texts, module)?)?;
    module.add_function(wrap_pyfunction!(records::header_texts, module)?)?;
    module.add_function(wrap_pyfunction!(records::byte_texts, module)?)?;
    module.add_function(wrap_pyfunction!(lines::line_ends, module)?)
}
