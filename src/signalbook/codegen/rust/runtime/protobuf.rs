//! The binary encoding of Protobuf.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::finding::{Finding, Path};
use super::time;
use super::wire::{
    from_base64, items, members, nested, surplus, to_base64, whole, wrong, Field, Found, Label,
    Node, Reader, Wire, Writer,
};

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const SIZED: u64 = 2;
const FIXED32: u64 = 5;

fn wire_type(node: &Node) -> u64 {
    match node.kind.as_str() {
        "fixed64" | "sfixed64" | "double" => FIXED64,
        "fixed32" | "sfixed32" | "float" => FIXED32,
        "bool" | "enum" => VARINT,
        kind if bounds(kind).is_some() => VARINT,
        _ => SIZED,
    }
}

/// The least and the greatest value of a kind of whole numbers.
fn bounds(kind: &str) -> Option<(i128, i128)> {
    match kind {
        "int32" | "sint32" | "sfixed32" => Some((i32::MIN.into(), i32::MAX.into())),
        "uint32" | "fixed32" => Some((0, u32::MAX.into())),
        "int64" | "sint64" | "sfixed64" => Some((i64::MIN.into(), i64::MAX.into())),
        "uint64" | "fixed64" => Some((0, u64::MAX.into())),
        _ => None,
    }
}

/// A part of what has no fields of its own in the table: a wrapper, an entry of a map.
fn part(name: &str, number: u64, of: usize) -> Field {
    Field {
        name: name.to_owned(),
        of,
        default: None,
        number,
        label: Label::Implicit,
        key: 0,
        oneof: None,
    }
}

pub(super) struct ProtobufWriter<'w> {
    wire: &'w Wire,
    out: &'w mut Writer,
}

impl<'w> ProtobufWriter<'w> {
    pub(super) fn new(wire: &'w Wire, out: &'w mut Writer) -> Self {
        Self { wire, out }
    }

    /// The fields of a message, or of what stands for one.
    pub(super) fn body(
        &mut self,
        index: usize,
        value: &Value,
        path: &Path<'_>,
        depth: usize,
    ) -> Found<()> {
        let node = self.wire.node(index, path)?;
        nested(path, depth)?;
        match node.kind.as_str() {
            "timestamp" => {
                let instant = value.as_str().and_then(time::instant);
                let instant = instant.ok_or_else(|| wrong(value, "timestamp", path))?;
                let seconds = instant.div_euclid(time::GIGA) as i64;
                self.time(seconds, instant.rem_euclid(time::GIGA) as i64);
                Ok(())
            }
            "duration" => {
                let duration = value.as_str().and_then(time::duration);
                let kind = "duration, such as 1.5s";
                let (seconds, rest) = duration.ok_or_else(|| wrong(value, kind, path))?;
                self.time(seconds, rest);
                Ok(())
            }
            "wrapper" => self.field(&part("value", 1, node.of), value, path, depth),
            _ => self.message(node, value, path, depth),
        }
    }

    fn time(&mut self, seconds: i64, nanoseconds: i64) {
        for (number, value) in [(1, seconds), (2, nanoseconds)] {
            if value != 0 {
                self.tag(number, VARINT);
                self.out.varint(value as u64);
            }
        }
    }

    fn message(&mut self, node: &Node, value: &Value, path: &Path<'_>, depth: usize) -> Found<()> {
        let found = members(value, "message", path)?;
        surplus(found, &node.fields, path)?;
        let mut choices: HashMap<&str, &str> = HashMap::new();
        for field in &node.fields {
            let below = path.member(&field.name);
            let Some(each) = found.get(&field.name).filter(|each| !each.is_null()) else {
                if field.label == Label::Required {
                    return Err(Finding::new(below, "required", "is required"));
                }
                continue;
            };
            let oneof = field.oneof.as_deref();
            if let Some(other) = oneof.and_then(|name| choices.insert(name, &field.name)) {
                let message = format!("is given beside {other}");
                return Err(Finding::new(below, "oneof", message));
            }
            self.field(field, each, &below, depth)?;
        }
        Ok(())
    }

    fn tag(&mut self, number: u64, wire_type: u64) {
        self.out.varint(number << 3 | wire_type);
    }

    /// What is written apart, to be put behind its length.
    fn apart(&self, write: impl FnOnce(&mut ProtobufWriter<'_>) -> Found<()>) -> Found<Vec<u8>> {
        let mut inner = Writer::default();
        write(&mut ProtobufWriter::new(self.wire, &mut inner))?;
        Ok(inner.bytes)
    }

    fn field(&mut self, field: &Field, value: &Value, path: &Path<'_>, depth: usize) -> Found<()> {
        let wire_type = wire_type(self.wire.node(field.of, path)?);
        match field.label {
            Label::Map => return self.map(field, value, path, depth),
            Label::Repeated => {
                for (place, item) in items(value, path)?.iter().enumerate() {
                    self.tag(field.number, wire_type);
                    self.single(field.of, item, &path.item(place), depth)?;
                }
            }
            Label::Packed => {
                let bytes = self.apart(|inner| {
                    for (place, item) in items(value, path)?.iter().enumerate() {
                        inner.single(field.of, item, &path.item(place), depth)?;
                    }
                    Ok(())
                })?;
                if !bytes.is_empty() {
                    self.tag(field.number, SIZED);
                    self.out.sized(&bytes, false);
                }
            }
            Label::Implicit | Label::Optional | Label::Required => {
                let bytes = self.apart(|inner| inner.single(field.of, value, path, depth))?;
                // A field without presence is not written with its default.
                if field.label != Label::Implicit || bytes.iter().any(|byte| *byte != 0) {
                    self.tag(field.number, wire_type);
                    self.out.raw(&bytes);
                }
            }
        }
        Ok(())
    }

    fn map(&mut self, field: &Field, value: &Value, path: &Path<'_>, depth: usize) -> Found<()> {
        let key = self.wire.node(field.key, path)?;
        let of = self.wire.node(field.of, path)?;
        for (name, each) in members(value, "map", path)? {
            let below = path.member(name);
            let entry = self.apart(|inner| {
                inner.tag(1, wire_type(key));
                inner.single(field.key, &key_of(key, name), &below, depth)?;
                inner.tag(2, wire_type(of));
                inner.single(field.of, each, &below, depth)
            })?;
            self.tag(field.number, SIZED);
            self.out.sized(&entry, false);
        }
        Ok(())
    }

    fn single(&mut self, index: usize, value: &Value, path: &Path<'_>, depth: usize) -> Found<()> {
        let node = self.wire.node(index, path)?;
        let kind = node.kind.as_str();
        if let Some((least, most)) = bounds(kind) {
            // The bits of a negative number are those of its two's complement.
            self.integer(node, whole(value, kind, least, most, path)? as u64);
            return Ok(());
        }
        match kind {
            "bool" => {
                let found = value.as_bool().ok_or_else(|| wrong(value, kind, path))?;
                self.out.varint(found.into());
            }
            "float" | "double" => self.out.real(kind, value, path)?,
            "string" => self.out.text(value, path, false)?,
            "bytes" => self.out.sized(&from_base64(value, kind, path)?, false),
            "enum" => self.out.varint(numbered(node, value, path)? as u64),
            _ => {
                let bytes = self.apart(|inner| inner.body(index, value, path, depth + 1))?;
                self.out.sized(&bytes, false);
            }
        }
        Ok(())
    }

    fn integer(&mut self, node: &Node, bits: u64) {
        match wire_type(node) {
            FIXED64 => self.out.raw(&bits.to_le_bytes()),
            FIXED32 => self.out.raw(&(bits as u32).to_le_bytes()),
            _ if node.kind.starts_with("sint") => self.out.zigzag(bits as i64),
            _ => self.out.varint(bits),
        }
    }
}

/// The number of an enumeration's value, given by its name, or by a number that has none yet.
fn numbered(node: &Node, value: &Value, path: &Path<'_>) -> Found<i64> {
    let named = |each: &&(String, i64)| value.as_str() == Some(&each.0);
    if let Some((_, number)) = node.numbers.iter().find(named) {
        return Ok(*number);
    }
    if value.is_number() && !node.closed {
        let (least, most) = (i32::MIN.into(), i32::MAX.into());
        return Ok(whole(value, "enum", least, most, path)? as i64);
    }
    let names: Vec<_> = node.numbers.iter().map(|each| each.0.as_str()).collect();
    let message = format!("must be one of {}", names.join(", "));
    Err(Finding::new(path, "enum", message))
}

/// The key of a map, whose names are text in JSON.
fn key_of(node: &Node, name: &str) -> Value {
    let found = match node.kind.as_str() {
        "string" => None,
        "bool" => name.parse().ok().map(Value::Bool),
        _ => name
            .parse::<i64>()
            .map(Value::from)
            .or_else(|_| name.parse::<u64>().map(Value::from))
            .ok(),
    };
    found.unwrap_or_else(|| name.into())
}

pub(super) struct ProtobufReader<'w> {
    wire: &'w Wire,
}

impl<'w> ProtobufReader<'w> {
    pub(super) fn new(wire: &'w Wire) -> Self {
        Self { wire }
    }

    pub(super) fn body(
        &self,
        index: usize,
        from: &mut Reader<'_>,
        path: &Path<'_>,
        depth: usize,
    ) -> Found<Value> {
        let node = self.wire.node(index, path)?;
        nested(path, depth)?;
        match node.kind.as_str() {
            "timestamp" | "duration" => time_of(node, from, path),
            "wrapper" => {
                let fields = [part("value", 1, node.of)];
                let find = |number| fields.iter().find(|each| each.number == number);
                let mut found = self.absent(&fields, path)?;
                self.fill(&fields, &find, from, &mut found, path, depth)?;
                Ok(found.remove("value").unwrap_or_default())
            }
            _ => {
                let find = |number| Some(&node.fields[*node.numbered.get(&number)?]);
                let mut found = self.absent(&node.fields, path)?;
                self.fill(&node.fields, &find, from, &mut found, path, depth)?;
                for field in &node.fields {
                    if field.label == Label::Required && !found.contains_key(&field.name) {
                        let below = path.member(&field.name);
                        return Err(Finding::new(below, "required", "is required"));
                    }
                }
                Ok(Value::Object(found))
            }
        }
    }

    /// What a message has of fields that are not in its bytes.
    fn absent(&self, fields: &[Field], path: &Path<'_>) -> Found<Map<String, Value>> {
        let mut found = Map::new();
        for field in fields {
            let value = match field.label {
                Label::Map => Value::Object(Map::new()),
                Label::Repeated | Label::Packed => Value::Array(Vec::new()),
                Label::Implicit => self.zero(field.of, path)?,
                Label::Optional | Label::Required => continue,
            };
            found.insert(field.name.clone(), value);
        }
        Ok(found)
    }

    fn fill<'f>(
        &self,
        fields: &[Field],
        find: &dyn Fn(u64) -> Option<&'f Field>,
        from: &mut Reader<'_>,
        found: &mut Map<String, Value>,
        path: &Path<'_>,
        depth: usize,
    ) -> Found<()> {
        while from.left() > 0 {
            let tag = from.varint(path)?;
            let wire_type = tag & 7;
            let known = match find(tag >> 3) {
                Some(field) => self.field(field, fields, wire_type, from, found, path, depth)?,
                None => false,
            };
            if !known {
                skip(wire_type, from, path)?;
            }
        }
        Ok(())
    }

    /// Read one occurrence of a field; false for one of another wire type, which is none of it.
    #[allow(clippy::too_many_arguments)] // what is read, where from, and where it goes
    fn field(
        &self,
        field: &Field,
        fields: &[Field],
        wire_type: u64,
        from: &mut Reader<'_>,
        found: &mut Map<String, Value>,
        path: &Path<'_>,
        depth: usize,
    ) -> Found<bool> {
        let below = &path.member(&field.name);
        let expected = self::wire_type(self.wire.node(field.of, below)?);
        if field.label == Label::Map {
            if wire_type != SIZED {
                return Ok(false);
            }
            let (name, value) = self.entry(field, from, below, depth)?;
            if let Some(Value::Object(entries)) = found.get_mut(&field.name) {
                entries.insert(name, value);
            }
            return Ok(true);
        }
        if matches!(field.label, Label::Repeated | Label::Packed) {
            let Some(Value::Array(items)) = found.get_mut(&field.name) else {
                return Ok(false);
            };
            if wire_type == SIZED && expected != SIZED {
                let mut inner = Reader::new(from.sized(false, below)?);
                while inner.left() > 0 {
                    items.push(self.single(field.of, &mut inner, below, depth)?);
                }
            } else if wire_type == expected {
                items.push(self.single(field.of, from, below, depth)?);
            } else {
                return Ok(false);
            }
            return Ok(true);
        }
        if wire_type != expected {
            return Ok(false);
        }
        let value = self.single(field.of, from, below, depth)?;
        // The last one counts, and of several that exclude each other too.
        if field.oneof.is_some() {
            for other in fields.iter().filter(|other| other.oneof == field.oneof) {
                found.remove(&other.name);
            }
        }
        found.insert(field.name.clone(), value);
        Ok(true)
    }

    fn entry(
        &self,
        field: &Field,
        from: &mut Reader<'_>,
        path: &Path<'_>,
        depth: usize,
    ) -> Found<(String, Value)> {
        let parts = [part("key", 1, field.key), part("value", 2, field.of)];
        let find = |number| parts.iter().find(|each| each.number == number);
        let mut inner = Reader::new(from.sized(false, path)?);
        let mut found = self.absent(&parts, path)?;
        self.fill(&parts, &find, &mut inner, &mut found, path, depth)?;
        let name = match found.remove("key").unwrap_or_default() {
            Value::String(text) => text,
            other => other.to_string(),
        };
        Ok((name, found.remove("value").unwrap_or_default()))
    }

    fn single(
        &self,
        index: usize,
        from: &mut Reader<'_>,
        path: &Path<'_>,
        depth: usize,
    ) -> Found<Value> {
        let node = self.wire.node(index, path)?;
        let kind = node.kind.as_str();
        if bounds(kind).is_some() {
            return integer(node, from, path);
        }
        match kind {
            "bool" => Ok(Value::Bool(from.varint(path)? != 0)),
            "float" | "double" => from.real(kind, path),
            "string" => Ok(from.text(false, path)?.into()),
            "bytes" => Ok(to_base64(from.sized(false, path)?)),
            "enum" => Ok(named(node, (from.varint(path)? as i32).into())),
            _ => {
                let mut inner = Reader::new(from.sized(false, path)?);
                self.body(index, &mut inner, path, depth + 1)
            }
        }
    }

    fn zero(&self, index: usize, path: &Path<'_>) -> Found<Value> {
        let node = self.wire.node(index, path)?;
        match node.kind.as_str() {
            "bool" => Ok(false.into()),
            "string" | "bytes" => Ok("".into()),
            "enum" => Ok(named(node, 0)),
            "double" | "float" => Ok(0.0.into()),
            kind if bounds(kind).is_some() => Ok(0.into()),
            _ => self.body(index, &mut Reader::new(&[]), path, 0),
        }
    }
}

fn named(node: &Node, number: i64) -> Value {
    match node.numbers.iter().find(|each| each.1 == number) {
        Some((name, _)) => name.as_str().into(),
        None => number.into(),
    }
}

fn integer(node: &Node, from: &mut Reader<'_>, path: &Path<'_>) -> Found<Value> {
    let kind = node.kind.as_str();
    let bits = match wire_type(node) {
        FIXED64 => u64::from_le_bytes(from.array(path)?),
        FIXED32 => u32::from_le_bytes(from.array(path)?).into(),
        _ if kind.starts_with("sint") => from.zigzag(path)? as u64,
        _ => from.varint(path)?,
    };
    Ok(match kind {
        "uint32" | "fixed32" => (bits as u32).into(),
        "uint64" | "fixed64" => bits.into(),
        "int32" | "sint32" | "sfixed32" => (bits as i32).into(),
        _ => (bits as i64).into(),
    })
}

/// A point in time, or an amount of it, as text.
fn time_of(node: &Node, from: &mut Reader<'_>, path: &Path<'_>) -> Found<Value> {
    let (mut seconds, mut rest) = (0i64, 0i64);
    while from.left() > 0 {
        match from.varint(path)? {
            0x08 => seconds = from.varint(path)? as i64,
            0x10 => rest = from.varint(path)? as i64,
            tag => skip(tag & 7, from, path)?,
        }
    }
    let nanoseconds = i128::from(seconds) * time::GIGA + i128::from(rest);
    if node.kind == "timestamp" {
        let message = "is a time beyond the years 1 to 9999";
        let text = time::timestamp(nanoseconds).map(Value::String);
        return text.ok_or_else(|| Finding::new(path, "range", message));
    }
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let amount = nanoseconds.abs();
    let fraction = time::fraction(amount % time::GIGA);
    Ok(Value::String(format!(
        "{sign}{}{fraction}s",
        amount / time::GIGA
    )))
}

fn skip(wire_type: u64, from: &mut Reader<'_>, path: &Path<'_>) -> Found<()> {
    match wire_type {
        VARINT => from.varint(path).map(drop),
        FIXED64 => from.raw(8, path).map(drop),
        SIZED => from.sized(false, path).map(drop),
        FIXED32 => from.raw(4, path).map(drop),
        _ => {
            let message = format!("there is no wire type {wire_type}");
            Err(Finding::new(path, "decode", message))
        }
    }
}
