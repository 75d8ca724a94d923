//! The binary encoding of Avro.

use serde_json::{Map, Value};

use super::decimal::{self, Decimal};
use super::finding::{Finding, Path};
use super::time;
use super::wire::{
    from_base64, items, members, nested, surplus, to_base64, whole, wrong, Found, Node, Reader,
    Wire, Writer,
};

const MOST_ITEMS: u64 = 1_000_000;

pub(super) struct AvroWriter<'w> {
    wire: &'w Wire,
    out: &'w mut Writer,
}

impl<'w> AvroWriter<'w> {
    pub(super) fn new(wire: &'w Wire, out: &'w mut Writer) -> Self {
        Self { wire, out }
    }

    pub(super) fn write(
        &mut self,
        index: usize,
        value: &Value,
        path: &Path<'_>,
        depth: usize,
    ) -> Found<()> {
        let node = self.wire.node(index, path)?;
        let kind = node.kind.as_str();
        nested(path, depth)?;
        match kind {
            "null" if value.is_null() => Ok(()),
            "boolean" => {
                let found = value.as_bool().ok_or_else(|| wrong(value, kind, path))?;
                self.out.raw(&[found.into()]);
                Ok(())
            }
            "int" | "long" => {
                self.out.zigzag(integer(node, value, path)?);
                Ok(())
            }
            "float" | "double" => self.out.real(kind, value, path),
            "string" => self.out.text(value, path, true),
            "bytes" | "fixed" => self.binary(node, value, path),
            "enum" => self.symbol(node, value, path),
            "union" => self.union(node, value, path, depth),
            "array" => self.array(node, value, path, depth),
            "map" => self.map(node, value, path, depth),
            "record" => self.record(node, value, path, depth),
            _ => Err(wrong(value, kind, path)),
        }
    }

    fn binary(&mut self, node: &Node, value: &Value, path: &Path<'_>) -> Found<()> {
        let bytes = if node.logical == "decimal" {
            undecimal(node, value, path)?
        } else {
            from_base64(value, &node.kind, path)?
        };
        if node.kind == "bytes" {
            self.out.sized(&bytes, true);
        } else if bytes.len() == node.size {
            self.out.raw(&bytes);
        } else {
            let message = format!("must have {} bytes", node.size);
            return Err(Finding::new(path, "size", message));
        }
        Ok(())
    }

    fn symbol(&mut self, node: &Node, value: &Value, path: &Path<'_>) -> Found<()> {
        let known = |symbol: &String| value.as_str() == Some(symbol);
        let message = || format!("must be one of {}", node.symbols.join(", "));
        let place = node.symbols.iter().position(known);
        let place = place.ok_or_else(|| Finding::new(path, "enum", message()))?;
        self.out.varint((place as u64) << 1);
        Ok(())
    }

    /// The first branch that takes the value; what the last one has against it, if none does.
    fn union(&mut self, node: &Node, value: &Value, path: &Path<'_>, depth: usize) -> Found<()> {
        let mut failure = Finding::new(path, "union", "is of no branch of the union");
        for (place, branch) in node.branches.iter().enumerate() {
            let began = self.out.bytes.len();
            self.out.varint((place as u64) << 1);
            match self.write(*branch, value, path, depth + 1) {
                Ok(()) => return Ok(()),
                Err(found) => {
                    self.out.bytes.truncate(began);
                    if !value.is_null() && self.wire.node(*branch, path)?.kind != "null" {
                        failure = found;
                    }
                }
            }
        }
        Err(failure)
    }

    fn array(&mut self, node: &Node, value: &Value, path: &Path<'_>, depth: usize) -> Found<()> {
        let found = items(value, path)?;
        if !found.is_empty() {
            self.out.varint((found.len() as u64) << 1);
        }
        for (place, item) in found.iter().enumerate() {
            self.write(node.of, item, &path.item(place), depth + 1)?;
        }
        self.out.varint(0);
        Ok(())
    }

    fn map(&mut self, node: &Node, value: &Value, path: &Path<'_>, depth: usize) -> Found<()> {
        let found = members(value, "map", path)?;
        if !found.is_empty() {
            self.out.varint((found.len() as u64) << 1);
        }
        for (name, each) in found {
            self.out.sized(name.as_bytes(), true);
            self.write(node.of, each, &path.member(name), depth + 1)?;
        }
        self.out.varint(0);
        Ok(())
    }

    fn record(&mut self, node: &Node, value: &Value, path: &Path<'_>, depth: usize) -> Found<()> {
        let found = members(value, "record", path)?;
        surplus(found, &node.fields, path)?;
        for field in &node.fields {
            let below = path.member(&field.name);
            let each = found.get(&field.name).or(field.default.as_ref());
            let missing = || Finding::new(below, "required", "is required");
            self.write(field.of, each.ok_or_else(missing)?, &below, depth + 1)?;
        }
        Ok(())
    }
}

/// A whole number, or what stands for a date or a time.
fn integer(node: &Node, value: &Value, path: &Path<'_>) -> Found<i64> {
    let (least, most) = match node.kind.as_str() {
        "int" => (i32::MIN.into(), i32::MAX.into()),
        _ => (i64::MIN.into(), i64::MAX.into()),
    };
    let logical = node.logical.as_str();
    let text = value.as_str();
    let found = match logical {
        "" => Some(whole(value, &node.kind, least, most, path)?),
        "date" => text.and_then(time::date).map(i128::from),
        "time-millis" | "time-micros" => text
            .and_then(time::time_of_day)
            .map(|time| time / step(node)),
        _ => text
            .and_then(time::instant)
            .map(|instant| instant.div_euclid(step(node))),
    };
    let found = found.ok_or_else(|| wrong(value, logical, path))?;
    i64::try_from(found).map_err(|_| wrong(value, logical, path))
}

/// Nanoseconds of what a logical type counts.
fn step(node: &Node) -> i128 {
    if node.logical.ends_with("millis") {
        1_000_000
    } else {
        1_000
    }
}

fn logical(node: &Node, value: i64, path: &Path<'_>) -> Found<Value> {
    let nanoseconds = i128::from(value) * step(node);
    let text = match node.logical.as_str() {
        "" => return Ok(value.into()),
        "date" => time::calendar(value),
        "time-millis" | "time-micros" => {
            let is_time = (0..time::DAY).contains(&nanoseconds);
            is_time.then(|| time::clock(nanoseconds))
        }
        _ => time::timestamp(nanoseconds),
    };
    let message = "is no time of a day, or a time beyond the years 1 to 9999";
    let text = text.ok_or_else(|| Finding::new(path, "range", message))?;
    Ok(Value::String(text))
}

fn undecimal(node: &Node, value: &Value, path: &Path<'_>) -> Found<Vec<u8>> {
    let decimal = value.as_str().and_then(Decimal::parse);
    let decimal = decimal.ok_or_else(|| wrong(value, "decimal (text)", path))?;
    let (precision, scale) = (node.precision, node.scale);
    let bytes = decimal.bytes(precision, scale).ok_or_else(|| {
        let message = format!("must have {precision} digits at most, {scale} behind the point");
        Finding::new(path, "range", message)
    })?;
    if node.kind == "bytes" || bytes.len() >= node.size {
        return Ok(bytes);
    }
    let sign = if bytes[0] > 127 { 255 } else { 0 };
    let mut padded = vec![sign; node.size - bytes.len()];
    padded.extend(bytes);
    Ok(padded)
}

pub(super) struct AvroReader<'w, 'b> {
    wire: &'w Wire,
    from: &'w mut Reader<'b>,
    /// Items that were read, of all arrays and maps.
    items: u64,
}

impl<'w, 'b> AvroReader<'w, 'b> {
    pub(super) fn new(wire: &'w Wire, from: &'w mut Reader<'b>) -> Self {
        let items = 0;
        Self { wire, from, items }
    }

    pub(super) fn read(&mut self, index: usize, path: &Path<'_>, depth: usize) -> Found<Value> {
        let wire = self.wire;
        let node = wire.node(index, path)?;
        nested(path, depth)?;
        match node.kind.as_str() {
            "null" => Ok(Value::Null),
            "boolean" => Ok(Value::Bool(self.from.array(path)? == [1])),
            "int" | "long" => self.integer(node, path),
            kind @ ("float" | "double") => self.from.real(kind, path),
            "string" => Ok(self.from.text(true, path)?.into()),
            "bytes" => binary(node, self.from.sized(true, path)?, path),
            "fixed" => binary(node, self.from.raw(node.size, path)?, path),
            "enum" => Ok(self.chosen(&node.symbols, path)?.as_str().into()),
            "union" => {
                let branch = *self.chosen(&node.branches, path)?;
                self.read(branch, path, depth + 1)
            }
            "array" => self.array(node, path, depth),
            "map" => self.map(node, path, depth),
            "record" => {
                let mut found = Map::new();
                for field in &node.fields {
                    let value = self.read(field.of, &path.member(&field.name), depth + 1)?;
                    found.insert(field.name.clone(), value);
                }
                Ok(Value::Object(found))
            }
            kind => Err(Finding::new(
                path,
                "schema",
                format!("there is no type {kind}"),
            )),
        }
    }

    fn integer(&mut self, node: &Node, path: &Path<'_>) -> Found<Value> {
        let value = self.from.zigzag(path)?;
        if node.kind == "int" && i32::try_from(value).is_err() {
            return Err(Finding::new(
                path,
                "range",
                format!("{value} is beyond int"),
            ));
        }
        logical(node, value, path)
    }

    fn chosen<'c, T>(&mut self, choices: &'c [T], path: &Path<'_>) -> Found<&'c T> {
        let place = self.from.zigzag(path)?;
        let found = usize::try_from(place)
            .ok()
            .and_then(|place| choices.get(place));
        let message = || format!("there is no choice {place}");
        found.ok_or_else(|| Finding::new(path, "decode", message()))
    }

    fn array(&mut self, node: &Node, path: &Path<'_>, depth: usize) -> Found<Value> {
        let mut found = Vec::new();
        loop {
            match self.block(path)? {
                0 => return Ok(Value::Array(found)),
                count => {
                    for _ in 0..count {
                        let below = path.item(found.len());
                        found.push(self.read(node.of, &below, depth + 1)?);
                    }
                }
            }
        }
    }

    fn map(&mut self, node: &Node, path: &Path<'_>, depth: usize) -> Found<Value> {
        let mut found = Map::new();
        loop {
            match self.block(path)? {
                0 => return Ok(Value::Object(found)),
                count => {
                    for _ in 0..count {
                        let name = self.from.text(true, path)?;
                        let value = self.read(node.of, &path.member(name), depth + 1)?;
                        found.insert(name.to_owned(), value);
                    }
                }
            }
        }
    }

    /// How many items follow; a negative count has the size of the block behind it.
    fn block(&mut self, path: &Path<'_>) -> Found<u64> {
        let count = self.from.zigzag(path)?;
        if count < 0 {
            self.from.zigzag(path)?;
        }
        // Items may be of no bytes at all: what is there does not bound their number.
        self.items = self.items.saturating_add(count.unsigned_abs());
        if self.items > MOST_ITEMS {
            return Err(Finding::new(
                path,
                "decode",
                "has more than a million items",
            ));
        }
        Ok(count.unsigned_abs())
    }
}

fn binary(node: &Node, bytes: &[u8], path: &Path<'_>) -> Found<Value> {
    if node.logical != "decimal" {
        return Ok(to_base64(bytes));
    }
    let text = decimal::text(bytes, node.scale).map(Value::String);
    text.ok_or_else(|| Finding::new(path, "range", "is a decimal of too many bytes"))
}
