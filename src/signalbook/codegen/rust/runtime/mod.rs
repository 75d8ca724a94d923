//! Messages built of typed payloads, and read back; CloudEvents in Kafka, in HTTP and in JSON.

mod attributes;
mod avro;
mod base64;
mod check;
mod decimal;
mod definition;
mod finding;
mod numbers;
mod outbound;
mod patterns;
pub mod payload;
mod protobuf;
mod receive;
mod rules;
mod send;
mod template;
mod time;
mod wire;

pub use attributes::{Attribute, Attributes};
pub use definition::{Definition, PayloadSchema};
pub use finding::{Finding, OutboundError, Path, UnexpectedMessage};
pub use outbound::{build, build_bytes, Inputs, Outbound};
pub use payload::PayloadType;
pub use receive::{parse, parse_bytes, Message, TypedMessage};
pub use rules::Rules;
pub use send::{HttpOptions, HttpRequest, KafkaOptions, KafkaRecord, Mode};
pub use template::Context;
pub use wire::Wire;
