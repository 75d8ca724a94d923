//! Messages built of payloads.

use std::collections::hash_map::RandomState;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};

use serde_json::Value;

use super::attributes::{invalid, Attribute, Attributes, SPECVERSION};
use super::definition::{Definition, PayloadSchema, Property, SchemaTable, Table};
use super::finding::{Finding, OutboundError, Path};
use super::payload::PayloadType;
use super::template::{Context, Unexpanded};
use super::time;

/// A message that was built, for whatever sends it.
#[derive(Clone, Debug)]
pub struct Outbound {
    /// What it was built by.
    pub definition: &'static Definition,
    /// The values of placeholders.
    pub context: Context,
    /// The context attributes of the CloudEvent; `None` for a message that is none.
    pub attributes: Option<Attributes>,
    /// The options of the protocol by name, such as `topic`, `key`, `headers.kind`.
    pub options: BTreeMap<String, String>,
    /// The payload.
    pub body: Option<Vec<u8>>,
    /// Its content type; empty where there is no payload.
    pub content_type: String,
}

/// What a message has beside its payload, as generated code gives it.
#[derive(Clone, Debug, Default)]
pub struct Inputs {
    context: Vec<(&'static str, String)>,
    values: BTreeMap<&'static str, Attribute>,
}

impl Inputs {
    /// The value of a placeholder.
    pub fn placeholder<'a>(&mut self, name: &'static str, value: impl Into<Option<&'a str>>) {
        if let Some(value) = value.into() {
            self.context.push((name, value.to_owned()));
        }
    }

    /// The value of an attribute or an option.
    pub fn value(&mut self, name: &'static str, value: impl ToString) {
        self.values.insert(name, Attribute::Text(value.to_string()));
    }
}

/// A message of a definition with a payload that a schema describes.
///
/// # Errors
///
/// All that is wrong.
pub fn build<P: PayloadType>(
    definition: &'static Definition,
    schema: &PayloadSchema,
    payload: &P,
    inputs: Inputs,
) -> Result<Outbound, OutboundError> {
    let root = definition.table().root;
    assemble(definition, inputs, |findings| {
        written(schema, root, payload, findings)
    })
}

/// A message of a definition with a payload that no schema describes.
///
/// # Errors
///
/// All that is wrong.
pub fn build_bytes(
    definition: &'static Definition,
    payload: Option<&[u8]>,
    inputs: Inputs,
) -> Result<Outbound, OutboundError> {
    assemble(definition, inputs, |_| payload.map(<[u8]>::to_vec))
}

fn assemble(
    definition: &'static Definition,
    inputs: Inputs,
    body: impl FnOnce(&mut Vec<Finding>) -> Option<Vec<u8>>,
) -> Result<Outbound, OutboundError> {
    let table = definition.table();
    let mut findings = Vec::new();
    let context = placeholders(inputs.context, &mut findings);
    let mut options = BTreeMap::new();
    let mut found = Attributes::new();
    for property in &table.properties {
        let Some(value) = value_of(table, property, &context, &inputs.values, &mut findings) else {
            continue;
        };
        if property.attribute {
            found.insert(property.name.clone(), value.of_type(&property.kind));
        } else {
            let name = property
                .path
                .strip_prefix("protocoloptions.")
                .unwrap_or(&property.path);
            options.insert(name.to_owned(), value.to_string());
        }
    }
    let body = body(&mut findings);
    let content_type = body.as_ref().map(|_| content_type(table, &found, &options));
    let content_type = content_type.unwrap_or_default();
    let attributes = table
        .event
        .then(|| event_attributes(table, found, &content_type));
    if let Some(attributes) = attributes.as_ref().filter(|_| findings.is_empty()) {
        findings.extend(invalid(attributes));
    }
    if !findings.is_empty() {
        let xid = table.xid.clone();
        return Err(OutboundError { xid, findings });
    }
    Ok(Outbound {
        definition,
        context,
        attributes,
        options,
        body,
        content_type,
    })
}

fn placeholders(given: Vec<(&'static str, String)>, findings: &mut Vec<Finding>) -> Context {
    let mut known = Context::new();
    for (name, value) in given {
        if value.is_empty() {
            let path = format!("{{{name}}}");
            findings.push(Finding::new(path, "context", "must not be empty"));
        } else {
            known.insert(name.to_owned(), value);
        }
    }
    known
}

fn value_of(
    table: &Table,
    property: &Property,
    context: &Context,
    values: &BTreeMap<&'static str, Attribute>,
    findings: &mut Vec<Finding>,
) -> Option<Attribute> {
    let path = property.path.as_str();
    if property.input {
        let name = path.strip_prefix("envelopemetadata.").unwrap_or(path);
        let value = values.get(name);
        let fitting = value.filter(|value| value.is_of_type(&property.kind));
        if fitting.is_none() {
            let rule = if value.is_none() { "required" } else { "type" };
            let message = format!("must be of type {}", property.kind);
            findings.push(Finding::new(path, rule, message));
        }
        return fitting.cloned();
    }
    if let Some(template) = &property.template {
        match template.expanded(context) {
            Ok(text) => return Some(Attribute::Text(text)),
            Err(Unexpanded::Missing(_)) if !property.required => {}
            Err(Unexpanded::Missing(message) | Unexpanded::Ambiguous(message)) => {
                findings.push(Finding::new(path, "context", message));
            }
        }
        return None;
    }
    let text = match &property.value {
        _ if property.now => Some(time::now()),
        Some(text) => Some(text.clone()),
        None if property.attribute => own_value(table, property),
        None => None,
    };
    text.map(Attribute::Text)
}

/// The value of an attribute that a definition leaves open.
fn own_value(table: &Table, property: &Property) -> Option<String> {
    match property.name.as_str() {
        "id" => Some(uuid()),
        "type" => Some(table.id.clone()),
        "time" => Some(time::now()),
        "datacontenttype" if property.required => {
            Some(table.content_type.clone()).filter(|text| !text.is_empty())
        }
        "dataschema" => table.dataschema.clone(),
        _ => None,
    }
}

/// A random UUID (RFC 9562, version 4). The hash keys that the operating system gave to the thread are the only
/// randomness that the standard library has.
fn uuid() -> String {
    let mut bits = [0; 2];
    for (place, half) in bits.iter_mut().enumerate() {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_usize(place);
        *half = hasher.finish();
    }
    let [high, low] = bits;
    let (high, low) = (high & !0xf000 | 0x4000, low & (u64::MAX >> 2) | 1 << 63);
    let text = format!("{high:016x}{low:016x}");
    let parts = [
        &text[..8],
        &text[8..12],
        &text[12..16],
        &text[16..20],
        &text[20..],
    ];
    parts.join("-")
}

fn content_type(table: &Table, found: &Attributes, options: &BTreeMap<String, String>) -> String {
    let is_own = |(name, value): &(&String, &String)| {
        name.eq_ignore_ascii_case("headers.content-type")
            && !value.to_lowercase().starts_with("application/cloudevents")
    };
    if let Some(stated) = found.get("datacontenttype") {
        return stated.to_string();
    }
    let header = options.iter().find(is_own).map(|(_, value)| value.clone());
    header.unwrap_or_else(|| table.content_type.clone())
}

fn event_attributes(table: &Table, mut found: Attributes, content_type: &str) -> Attributes {
    found.insert(
        "specversion".to_owned(),
        Attribute::Text(SPECVERSION.to_owned()),
    );
    found
        .entry("id".to_owned())
        .or_insert_with(|| Attribute::Text(uuid()));
    found
        .entry("type".to_owned())
        .or_insert_with(|| Attribute::Text(table.id.clone()));
    if let Some(uri) = &table.dataschema {
        found
            .entry("dataschema".to_owned())
            .or_insert_with(|| Attribute::Text(uri.clone()));
    }
    found.remove("datacontenttype");
    if !content_type.is_empty() {
        let value = Attribute::Text(content_type.to_owned());
        found.insert("datacontenttype".to_owned(), value);
    }
    found
}

/// The payload in bytes; what is wrong with it is added to the findings.
fn written<P: PayloadType>(
    schema: &PayloadSchema,
    root: usize,
    payload: &P,
    findings: &mut Vec<Finding>,
) -> Option<Vec<u8>> {
    let written = payload.to_json(&Path::Root("data"), 0);
    let written = written.and_then(|value| encoded(schema, root, &value, findings));
    written.map_err(|finding| findings.push(finding)).ok()
}

fn encoded(
    schema: &PayloadSchema,
    root: usize,
    value: &Value,
    findings: &mut Vec<Finding>,
) -> Result<Vec<u8>, Finding> {
    match schema.table() {
        SchemaTable::Binary(wire) => wire.encode(root, value, "data"),
        SchemaTable::Json(rules) => {
            findings.extend(rules.check(root, value, "data"));
            Ok(value.to_string().into_bytes())
        }
    }
}
