//! Messages as they were received, and what they say by their definitions.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::attributes::{invalid, is_of_type, Attribute, Attributes, NO_ATTRIBUTE, REQUIRED};
use super::base64;
use super::definition::{Definition, PayloadSchema, Property, SchemaTable, Table};
use super::finding::{Finding, Path, UnexpectedMessage};
use super::payload::PayloadType;
use super::send::{is_json, media_type, HttpRequest, KafkaRecord, JSON_EVENT};
use super::template::{percent_decoded, Context};
use super::time;

/// A message as it was received.
#[derive(Clone, Debug, Default)]
pub struct Message {
    /// `KAFKA`, `HTTP` and so on; empty for an event in a file.
    pub protocol: String,
    /// The content type.
    pub content_type: String,
    /// The attributes of an event in binary mode; `None` where there are none.
    pub attributes: Option<Attributes>,
    /// The options of the protocol by name; several values for a header that comes several times.
    pub options: BTreeMap<String, Vec<String>>,
    /// The body.
    pub body: Option<Vec<u8>>,
}

/// What a message of a definition says.
#[derive(Clone, Debug)]
pub struct TypedMessage<P> {
    /// The payload.
    pub payload: P,
    /// The payload as it was sent, also with members that no type has; null where no schema describes it.
    pub data: Value,
    /// The values of placeholders.
    pub context: Context,
    /// The context attributes of the CloudEvent; `None` for a message that is none.
    pub attributes: Option<Attributes>,
}

impl Message {
    /// A record of Kafka as a message.
    #[must_use]
    pub fn from_kafka(record: KafkaRecord) -> Self {
        let mut options = BTreeMap::from([("topic".to_owned(), vec![record.topic])]);
        if let Some(key) = record.key {
            options.insert("key".to_owned(), vec![text_of(key)]);
        }
        let headers = record.headers.into_iter();
        let headers = headers.map(|(name, value)| (name, text_of(value)));
        Self::received(
            "KAFKA",
            headers,
            "ce_",
            str::to_owned,
            options,
            record.value,
        )
    }

    /// A request of HTTP as a message; its headers as they came, in any case.
    #[must_use]
    pub fn from_http(request: HttpRequest) -> Self {
        let mut options: BTreeMap<_, Vec<_>> = BTreeMap::new();
        options.insert("method".to_owned(), vec![request.method.to_uppercase()]);
        options.insert("path".to_owned(), vec![request.path]);
        for (name, value) in request.query {
            options
                .entry(format!("query.{name}"))
                .or_default()
                .push(value);
        }
        let headers = request.headers.into_iter();
        let headers = headers.map(|(name, value)| (name.to_lowercase(), value));
        Self::received(
            "HTTP",
            headers,
            "ce-",
            decoded_header,
            options,
            request.body,
        )
    }

    /// An event in the JSON event format as a message.
    #[must_use]
    pub fn from_cloud_event(event: impl Into<Vec<u8>>) -> Self {
        Self {
            content_type: JSON_EVENT.to_owned(),
            body: Some(event.into()),
            ..Self::default()
        }
    }

    fn received(
        protocol: &str,
        headers: impl Iterator<Item = (String, String)>,
        prefix: &str,
        decode: impl Fn(&str) -> String,
        mut options: BTreeMap<String, Vec<String>>,
        body: Option<Vec<u8>>,
    ) -> Self {
        let mut attributes = Attributes::new();
        let mut content_type = String::new();
        for (name, value) in headers {
            if name == "content-type" && content_type.is_empty() {
                content_type.clone_from(&value);
            } else if let Some(attribute) = name.strip_prefix(prefix) {
                let value = Attribute::Text(decode(&value));
                attributes.insert(attribute.to_owned(), value);
            }
            options
                .entry(format!("headers.{name}"))
                .or_default()
                .push(value);
        }
        let binary = REQUIRED.iter().all(|name| attributes.contains_key(*name));
        if binary && !content_type.is_empty() {
            let value = Attribute::Text(content_type.clone());
            attributes.insert("datacontenttype".to_owned(), value);
        }
        Self {
            protocol: protocol.to_owned(),
            content_type,
            attributes: binary.then_some(attributes),
            options,
            body,
        }
    }
}

fn text_of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// A header of HTTP as the attribute that it stands for: decoded, without quotes.
fn decoded_header(text: &str) -> String {
    let quoted = text
        .strip_prefix('"')
        .and_then(|rest| rest.strip_suffix('"'));
    let Some(quoted) = quoted else {
        return percent_decoded(text);
    };
    let mut bare = String::with_capacity(quoted.len());
    let mut characters = quoted.chars();
    while let Some(character) = characters.next() {
        let escaped = if character == '\\' {
            characters.next()
        } else {
            None
        };
        bare.push(escaped.unwrap_or(character));
    }
    percent_decoded(&bare)
}

/// What is inside of a message: an event in JSON is opened.
#[derive(Default)]
struct Opened {
    attributes: Option<Attributes>,
    body: Option<Vec<u8>>,
    content_type: String,
    mode: &'static str,
}

/// What a received message with a payload that a schema describes says.
///
/// # Errors
///
/// All that the definition does not allow.
pub fn parse<P: PayloadType>(
    definition: &Definition,
    schema: &PayloadSchema,
    message: &Message,
) -> Result<TypedMessage<P>, UnexpectedMessage> {
    let table = definition.table();
    let unexpected = |findings| {
        let xid = table.xid.clone();
        UnexpectedMessage { xid, findings }
    };
    let (opened, context) = held(table, message).map_err(unexpected)?;
    let data = read(schema, table.root, opened.body.as_deref()).map_err(unexpected)?;
    let payload = P::from_json(&data, &Path::Root("data"));
    let payload = payload.map_err(|finding| unexpected(vec![finding]))?;
    let attributes = opened.attributes;
    Ok(TypedMessage {
        payload,
        data,
        context,
        attributes,
    })
}

/// What a received message with a payload that no schema describes says.
///
/// # Errors
///
/// All that the definition does not allow.
pub fn parse_bytes(
    definition: &Definition,
    message: &Message,
) -> Result<TypedMessage<Option<Vec<u8>>>, UnexpectedMessage> {
    let table = definition.table();
    let (opened, context) = held(table, message).map_err(|findings| {
        let xid = table.xid.clone();
        UnexpectedMessage { xid, findings }
    })?;
    let (payload, attributes) = (opened.body, opened.attributes);
    let data = Value::Null;
    Ok(TypedMessage {
        payload,
        data,
        context,
        attributes,
    })
}

fn held(table: &Table, message: &Message) -> Result<(Opened, Context), Vec<Finding>> {
    let mut findings = Vec::new();
    let opened = open(message, &mut findings);
    if table.event && opened.attributes.is_none() && findings.is_empty() {
        let text = "the message is no CloudEvent";
        findings.push(Finding::new("", "not_cloudevent", text));
    }
    let mut context = Context::new();
    if findings.is_empty() {
        hold(table, message, &opened, &mut context, &mut findings);
    }
    if findings.is_empty() {
        return Ok((opened, context));
    }
    Err(findings)
}

fn open(message: &Message, findings: &mut Vec<Finding>) -> Opened {
    let name = media_type(&message.content_type);
    if !name.starts_with("application/cloudevents") {
        let attributes = message.attributes.clone();
        let mut content_type = message.content_type.clone();
        if let Some(found) = &attributes {
            findings.extend(invalid(found));
            let own = found.get("datacontenttype").map(Attribute::to_string);
            content_type = own.unwrap_or_default();
        }
        let mode = if attributes.is_some() { "binary" } else { "" };
        let body = message.body.clone();
        return Opened {
            attributes,
            body,
            content_type,
            mode,
        };
    }
    let mode = "structured";
    if name != JSON_EVENT {
        let text = format!("events of {} are not read here", message.content_type);
        findings.push(Finding::new("", "content_type", text));
        return Opened {
            mode,
            ..Opened::default()
        };
    }
    match serde_json::from_slice(message.body.as_deref().unwrap_or_default()) {
        Ok(Value::Object(members)) => event(members, findings),
        Ok(_) => {
            let text = "a CloudEvent in JSON is an object";
            findings.push(Finding::new("", "type", text));
            Opened {
                mode,
                ..Opened::default()
            }
        }
        Err(error) => {
            findings.push(Finding::new("", "json", format!("not JSON: {error}")));
            Opened {
                mode,
                ..Opened::default()
            }
        }
    }
}

/// An event by its members in JSON.
fn event(mut members: Map<String, Value>, findings: &mut Vec<Finding>) -> Opened {
    let data = members.remove("data");
    let bytes = members.remove("data_base64");
    let mut attributes = Attributes::new();
    for (name, value) in members {
        if value.is_null() {
            continue;
        }
        match Attribute::from_json(value) {
            Some(value) => {
                attributes.insert(name, value);
            }
            None => findings.push(Finding::new(name, "cloudevents", NO_ATTRIBUTE)),
        }
    }
    findings.extend(invalid(&attributes));
    let stated = attributes.get("datacontenttype").map(Attribute::to_string);
    let stated = stated.unwrap_or_default();
    let as_text = !stated.is_empty() && !is_json(&stated);
    let body = match (&bytes, &data) {
        (Some(Value::String(_)), Some(_)) => {
            findings.push(Finding::new("data_base64", "base64", "is beside data"));
            None
        }
        (Some(Value::String(text)), None) => {
            let bytes = base64::decode(text);
            if bytes.is_none() {
                findings.push(Finding::new("data_base64", "base64", "is no base64"));
            }
            bytes
        }
        (_, Some(Value::String(text))) if as_text => Some(text.as_bytes().to_vec()),
        (_, Some(data)) => Some(data.to_string().into_bytes()),
        (_, None) => None,
    };
    let content_type = match stated.is_empty() && data.is_some() {
        true => "application/json".to_owned(),
        false => stated,
    };
    let attributes = Some(attributes);
    Opened {
        attributes,
        body,
        content_type,
        mode: "structured",
    }
}

/// Hold what a message has to what its definition declares.
fn hold(
    table: &Table,
    message: &Message,
    opened: &Opened,
    context: &mut Context,
    findings: &mut Vec<Finding>,
) {
    let protocol = message.protocol.as_str();
    if !table.protocol.is_empty() && !protocol.is_empty() && protocol != table.protocol {
        let text = format!("must be {}, not {protocol}", table.protocol);
        findings.push(Finding::new("protocol", "protocol", text));
        return;
    }
    if !table.mode.is_empty() && !protocol.is_empty() && opened.mode != table.mode {
        let text = format!("the content mode must be {}", table.mode);
        findings.push(Finding::new("mode", "mode", text));
    }
    for property in &table.properties {
        if property.delivery || (!property.attribute && protocol != table.protocol) {
            continue;
        }
        let fault = fault_of(property, message, opened, context);
        if let Some(fault) = fault {
            findings.push(Finding::new(&property.name, "value", fault));
        }
    }
    let actual = opened.content_type.as_str();
    let stated = !actual.is_empty() && !table.content_type.is_empty();
    if stated && !is_allowed(table, actual) {
        let text = format!("must be {}", table.content_type);
        findings.push(Finding::new("datacontenttype", "content_type", text));
    }
}

/// What is wrong with the values of a property: of several, one has to fit.
fn fault_of(
    property: &Property,
    message: &Message,
    opened: &Opened,
    context: &mut Context,
) -> Option<String> {
    let own = opened
        .attributes
        .as_ref()
        .and_then(|found| found.get(&property.name));
    let values: Vec<Attribute> = if property.attribute {
        own.cloned().into_iter().collect()
    } else {
        let values = message.options.get(&property.name).into_iter().flatten();
        values.cloned().map(Attribute::Text).collect()
    };
    if values.is_empty() {
        return property.required.then(|| "is required".to_owned());
    }
    let mut first = None;
    for value in &values {
        let fault = unfit(property, value, context)?;
        first = first.or(Some(fault));
    }
    first
}

/// Why a value is not what a property declares; `None` if it is.
fn unfit(property: &Property, value: &Attribute, context: &mut Context) -> Option<String> {
    let text = value.to_string();
    if let Some(template) = &property.template {
        let found = match value {
            Attribute::Text(text) => template.matched(text),
            _ => None,
        };
        let Some(found) = found else {
            return Some(format!("must fit {}, not {text:?}", template.text));
        };
        for (name, value) in &found {
            if context.get(name).is_some_and(|before| before != value) {
                return Some(format!("has another {{{name}}} than is elsewhere"));
            }
        }
        context.extend(found);
        return None;
    }
    let Some(expected) = &property.value else {
        let message = || format!("must be of type {}, not {text:?}", property.kind);
        return (!value.is_of_type(&property.kind)).then(message);
    };
    let same = if property.is_content_type {
        is_same_content_type(expected, &text)
    } else {
        is_same(&property.kind, expected, &text)
    };
    (!same).then(|| format!("must be {expected:?}, not {text:?}"))
}

fn is_same(kind: &str, expected: &str, actual: &str) -> bool {
    if expected == actual {
        return true;
    }
    match kind {
        "integer" | "ulong" | "number" => {
            let number = |text: &str| text.parse::<f64>().ok();
            is_of_type("number", actual) && number(actual) == number(expected)
        }
        "timestamp" => {
            let actual = time::lenient_instant(actual);
            actual.is_some() && actual == time::lenient_instant(expected)
        }
        "boolean" | "uuid" => actual.eq_ignore_ascii_case(expected),
        _ => false,
    }
}

fn is_allowed(table: &Table, actual: &str) -> bool {
    if table.stated {
        return is_same_content_type(&table.content_type, actual);
    }
    if table.content_type == "application/json" && is_json(actual) {
        return true;
    }
    let name = media_type(actual);
    name == media_type(&table.content_type) || table.aliases.contains(&name)
}

fn is_same_content_type(expected: &str, actual: &str) -> bool {
    media_type(expected) == media_type(actual)
        && parameters(actual).is_superset(&parameters(expected))
}

fn parameters(content_type: &str) -> BTreeSet<(String, String)> {
    let parts = content_type.split(';').skip(1);
    let pairs = parts.filter_map(|part| part.split_once('='));
    pairs
        .map(|(name, value)| {
            let name = name.trim().to_lowercase();
            let value = value.trim().trim_matches('"');
            let value = if name == "charset" {
                value.to_lowercase()
            } else {
                value.to_owned()
            };
            (name, value)
        })
        .collect()
}

fn read(schema: &PayloadSchema, root: usize, body: Option<&[u8]>) -> Result<Value, Vec<Finding>> {
    let Some(body) = body else {
        let text = "there is no payload, but the definition has a schema";
        return Err(vec![Finding::new("data", "required", text)]);
    };
    let rules = match schema.table() {
        SchemaTable::Binary(wire) => {
            return wire
                .decode(root, body, "data")
                .map_err(|finding| vec![finding]);
        }
        SchemaTable::Json(rules) => rules,
    };
    let value: Value = serde_json::from_slice(body)
        .map_err(|error| vec![Finding::new("data", "json", format!("not JSON: {error}"))])?;
    let findings = rules.check(root, &value, "data");
    if findings.is_empty() {
        return Ok(value);
    }
    Err(findings)
}
