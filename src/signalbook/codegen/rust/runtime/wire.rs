//! Values in the binary encodings of Avro and Protobuf, by a table of types; and what both have in common.

use std::collections::HashMap;

use serde_json::{Map, Number, Value};

use super::avro::{AvroReader, AvroWriter};
use super::base64;
use super::check::shown;
use super::finding::{Finding, Path};
use super::numbers;
use super::protobuf::{ProtobufReader, ProtobufWriter};

const DEEPEST: usize = 64;

pub(super) type Found<T> = Result<T, Finding>;

/// The types of a schema document, and the encoding of their values.
#[derive(Debug)]
pub struct Wire {
    avro: bool,
    nodes: Vec<Node>,
}

/// One type; others are places in the table.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) kind: String,
    pub(super) logical: String,
    pub(super) precision: usize,
    pub(super) scale: usize,
    pub(super) size: usize,
    pub(super) symbols: Vec<String>,
    pub(super) of: usize,
    pub(super) branches: Vec<usize>,
    pub(super) fields: Vec<Field>,
    /// The places of fields by their numbers.
    pub(super) numbered: HashMap<u64, usize>,
    pub(super) numbers: Vec<(String, i64)>,
    pub(super) closed: bool,
}

/// A field of a record or a message.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) of: usize,
    pub(super) default: Option<Value>,
    pub(super) number: u64,
    pub(super) label: Label,
    pub(super) key: usize,
    pub(super) oneof: Option<String>,
}

/// How often a field of a message comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Label {
    Implicit,
    Optional,
    Required,
    Repeated,
    Packed,
    Map,
}

impl Wire {
    /// The types of a table as generated code has it; the encoding is Avro's or Protobuf's.
    #[must_use]
    pub fn new(avro: bool, table: &Value) -> Self {
        let nodes = table.as_array().into_iter().flatten();
        Self {
            avro,
            nodes: nodes.map(node).collect(),
        }
    }

    /// A value of the type at a place in bytes.
    ///
    /// # Errors
    ///
    /// What the type has against the value.
    pub fn encode(&self, root: usize, value: &Value, path: &str) -> Result<Vec<u8>, Finding> {
        let mut out = Writer::default();
        if self.avro {
            AvroWriter::new(self, &mut out).write(root, value, &Path::Root(path), 0)?;
        } else {
            ProtobufWriter::new(self, &mut out).body(root, value, &Path::Root(path), 0)?;
        }
        Ok(out.bytes)
    }

    /// The value of the type at a place that bytes stand for.
    ///
    /// # Errors
    ///
    /// What is wrong with the bytes.
    pub fn decode(&self, root: usize, bytes: &[u8], path: &str) -> Result<Value, Finding> {
        let path = Path::Root(path);
        let mut from = Reader::new(bytes);
        if !self.avro {
            return ProtobufReader::new(self).body(root, &mut from, &path, 0);
        }
        let value = AvroReader::new(self, &mut from).read(root, &path, 0)?;
        match from.left() {
            0 => Ok(value),
            left => Err(Finding::new(
                path,
                "avro",
                format!("{left} bytes follow the datum"),
            )),
        }
    }

    pub(super) fn node(&self, place: usize, path: &Path<'_>) -> Found<&Node> {
        let missing = || Finding::new(path, "schema", "the schema has no such type");
        self.nodes.get(place).ok_or_else(missing)
    }
}

fn node(table: &Value) -> Node {
    let text = |name: &str| table[name].as_str().unwrap_or_default().to_owned();
    let place = |name: &str| place(&table[name]);
    let fields: Vec<_> = table["fields"]
        .as_array()
        .into_iter()
        .flatten()
        .map(field)
        .collect();
    let numbered = fields
        .iter()
        .enumerate()
        .map(|(place, each)| (each.number, place))
        .collect();
    let members = table["numbers"].as_object().into_iter().flatten();
    let symbols = table["symbols"].as_array().into_iter().flatten();
    let branches = table["branches"].as_array().into_iter().flatten();
    Node {
        kind: text("kind"),
        logical: text("logical"),
        precision: place("precision"),
        scale: place("scale"),
        size: place("size"),
        symbols: symbols
            .filter_map(|each| each.as_str().map(str::to_owned))
            .collect(),
        of: place("of"),
        branches: branches.map(self::place).collect(),
        fields,
        numbered,
        numbers: members
            .map(|(name, number)| (name.clone(), number.as_i64().unwrap_or(0)))
            .collect(),
        closed: table["closed"].as_bool() == Some(true),
    }
}

fn field(table: &Value) -> Field {
    Field {
        name: table["name"].as_str().unwrap_or_default().to_owned(),
        of: place(&table["of"]),
        default: table.get("default").cloned(),
        number: table["number"].as_u64().unwrap_or(0),
        label: match table["label"].as_str() {
            Some("optional") => Label::Optional,
            Some("required") => Label::Required,
            Some("repeated") => Label::Repeated,
            Some("packed") => Label::Packed,
            Some("map") => Label::Map,
            _ => Label::Implicit,
        },
        key: place(&table["key"]),
        oneof: table["oneof"].as_str().map(str::to_owned),
    }
}

fn place(value: &Value) -> usize {
    value
        .as_u64()
        .and_then(|found| usize::try_from(found).ok())
        .unwrap_or(usize::MAX)
}

pub(super) fn nested(path: &Path<'_>, depth: usize) -> Found<()> {
    if depth > DEEPEST {
        let message = format!("nested deeper than {DEEPEST} levels");
        return Err(Finding::new(path, "depth", message));
    }
    Ok(())
}

pub(super) fn wrong(value: &Value, kind: &str, path: &Path<'_>) -> Finding {
    let message = format!("must be of type {kind}, not {}", shown(value));
    Finding::new(path, "type", message)
}

pub(super) fn members<'a>(
    value: &'a Value,
    kind: &str,
    path: &Path<'_>,
) -> Found<&'a Map<String, Value>> {
    value.as_object().ok_or_else(|| wrong(value, kind, path))
}

pub(super) fn items<'a>(value: &'a Value, path: &Path<'_>) -> Found<&'a [Value]> {
    let found = value.as_array().map(Vec::as_slice);
    found.ok_or_else(|| wrong(value, "array", path))
}

/// Refuse members that no field is called like.
pub(super) fn surplus(found: &Map<String, Value>, fields: &[Field], path: &Path<'_>) -> Found<()> {
    if found.is_empty() {
        return Ok(());
    }
    let known: std::collections::HashSet<_> = fields.iter().map(|field| &field.name).collect();
    match found.keys().find(|name| !known.contains(name)) {
        Some(name) => Err(Finding::new(path.member(name), "unknown", "is no field")),
        None => Ok(()),
    }
}

/// A whole number within bounds.
pub(super) fn whole(
    value: &Value,
    kind: &str,
    least: i128,
    most: i128,
    path: &Path<'_>,
) -> Found<i128> {
    let number = value.as_number().and_then(numbers::whole);
    let found = number.ok_or_else(|| wrong(value, kind, path))?;
    if found < least || found > most {
        return Err(Finding::new(
            path,
            "range",
            format!("{found} is beyond {kind}"),
        ));
    }
    Ok(found)
}

pub(super) fn from_base64(value: &Value, kind: &str, path: &Path<'_>) -> Found<Vec<u8>> {
    let bytes = value.as_str().and_then(base64::decode);
    bytes.ok_or_else(|| wrong(value, &format!("{kind} (base64)"), path))
}

pub(super) fn to_base64(bytes: &[u8]) -> Value {
    Value::String(base64::encode(bytes))
}

pub(super) fn finite(value: f64, path: &Path<'_>) -> Found<Value> {
    let message = || format!("{value} has no form in JSON");
    let number = Number::from_f64(value).map(Value::Number);
    number.ok_or_else(|| Finding::new(path, "range", message()))
}

/// Bytes as they are written.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
}

impl Writer {
    pub(super) fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub(super) fn varint(&mut self, mut value: u64) {
        while value > 127 {
            self.bytes.push((value & 127) as u8 | 128);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    pub(super) fn zigzag(&mut self, value: i64) {
        self.varint(((value << 1) ^ (value >> 63)) as u64);
    }

    /// Bytes behind their length; Avro's lengths have a sign.
    pub(super) fn sized(&mut self, bytes: &[u8], signed: bool) {
        self.varint((bytes.len() as u64) << u32::from(signed));
        self.raw(bytes);
    }

    /// A float or a double, in which Avro and Protobuf are alike.
    pub(super) fn real(&mut self, kind: &str, value: &Value, path: &Path<'_>) -> Found<()> {
        let found = value.as_f64().ok_or_else(|| wrong(value, kind, path))?;
        if kind == "float" {
            self.raw(&(found as f32).to_le_bytes());
        } else {
            self.raw(&found.to_le_bytes());
        }
        Ok(())
    }

    pub(super) fn text(&mut self, value: &Value, path: &Path<'_>, signed: bool) -> Found<()> {
        let text = value.as_str().ok_or_else(|| wrong(value, "string", path))?;
        self.sized(text.as_bytes(), signed);
        Ok(())
    }
}

/// Bytes as they are read.
pub(super) struct Reader<'b> {
    bytes: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes }
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn raw(&mut self, count: usize, path: &Path<'_>) -> Found<&'b [u8]> {
        if count > self.bytes.len() {
            return Err(Finding::new(path, "decode", "the payload ends too early"));
        }
        let (found, rest) = self.bytes.split_at(count);
        self.bytes = rest;
        Ok(found)
    }

    pub(super) fn array<const N: usize>(&mut self, path: &Path<'_>) -> Found<[u8; N]> {
        let mut found = [0; N];
        found.copy_from_slice(self.raw(N, path)?);
        Ok(found)
    }

    pub(super) fn varint(&mut self, path: &Path<'_>) -> Found<u64> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let [byte] = self.array(path)?;
            value |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Ok(value);
            }
        }
        Err(Finding::new(
            path,
            "decode",
            "a number has more than ten bytes",
        ))
    }

    pub(super) fn zigzag(&mut self, path: &Path<'_>) -> Found<i64> {
        let value = self.varint(path)?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// Bytes behind their length; Avro's lengths have a sign.
    pub(super) fn sized(&mut self, signed: bool, path: &Path<'_>) -> Found<&'b [u8]> {
        let size = if signed {
            u64::try_from(self.zigzag(path)?).unwrap_or(u64::MAX)
        } else {
            self.varint(path)?
        };
        self.raw(usize::try_from(size).unwrap_or(usize::MAX), path)
    }

    pub(super) fn text(&mut self, signed: bool, path: &Path<'_>) -> Found<&'b str> {
        let bytes = self.sized(signed, path)?;
        let broken = |_| Finding::new(path, "decode", "is not in UTF-8");
        std::str::from_utf8(bytes).map_err(broken)
    }

    pub(super) fn real(&mut self, kind: &str, path: &Path<'_>) -> Found<Value> {
        if kind == "float" {
            return finite(f32::from_le_bytes(self.array(path)?).into(), path);
        }
        finite(f64::from_le_bytes(self.array(path)?), path)
    }
}
