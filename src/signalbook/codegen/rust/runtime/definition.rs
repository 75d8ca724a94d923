//! Message definitions and schemas, as generated code has them: tables in JSON that are read when they are first used.

use std::sync::OnceLock;

use serde_json::Value;

use super::rules::Rules;
use super::template::Template;
use super::wire::Wire;

/// A message definition.
#[derive(Debug)]
pub struct Definition {
    json: &'static str,
    table: OnceLock<Table>,
}

/// What a definition says.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) xid: String,
    pub(super) id: String,
    pub(super) event: bool,
    pub(super) protocol: String,
    pub(super) mode: String,
    pub(super) content_type: String,
    /// Whether the definition states the content type, so that only the same will do.
    pub(super) stated: bool,
    /// Names of the content type beside its own.
    pub(super) aliases: Vec<String>,
    pub(super) dataschema: Option<String>,
    pub(super) root: usize,
    pub(super) properties: Vec<Property>,
}

/// What a message declares: an attribute of its event, or an option of its protocol.
#[derive(Debug)]
pub(super) struct Property {
    pub(super) name: String,
    pub(super) path: String,
    pub(super) kind: String,
    pub(super) attribute: bool,
    pub(super) required: bool,
    pub(super) delivery: bool,
    pub(super) is_content_type: bool,
    pub(super) input: bool,
    pub(super) now: bool,
    pub(super) value: Option<String>,
    pub(super) template: Option<Template>,
}

impl Definition {
    /// A definition in JSON, as generated code has it.
    #[must_use]
    pub const fn new(json: &'static str) -> Self {
        let table = OnceLock::new();
        Self { json, table }
    }

    /// Where the definition is in its registry.
    #[must_use]
    pub fn xid(&self) -> &str {
        &self.table().xid
    }

    /// The protocol that the definition is for, such as `KAFKA`; empty for one that is for all.
    #[must_use]
    pub fn protocol(&self) -> &str {
        &self.table().protocol
    }

    pub(super) fn table(&self) -> &Table {
        self.table.get_or_init(|| table(&parsed(self.json)))
    }
}

fn parsed(json: &str) -> Value {
    serde_json::from_str(json).expect("generated tables are JSON")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

fn is_true(value: &Value) -> bool {
    value.as_bool() == Some(true)
}

fn table(from: &Value) -> Table {
    let properties = from["properties"].as_array().into_iter().flatten();
    Table {
        xid: text(&from["xid"]),
        id: text(&from["id"]),
        event: is_true(&from["event"]),
        protocol: text(&from["protocol"]),
        mode: text(&from["mode"]),
        content_type: text(&from["contentType"]),
        stated: is_true(&from["stated"]),
        aliases: texts(&from["aliases"]),
        dataschema: from["dataschema"].as_str().map(str::to_owned),
        root: from["root"].as_u64().unwrap_or(0) as usize,
        properties: properties.map(property).collect(),
    }
}

fn property(from: &Value) -> Property {
    Property {
        name: text(&from["name"]),
        path: text(&from["path"]),
        kind: text(&from["type"]),
        attribute: is_true(&from["attribute"]),
        required: is_true(&from["required"]),
        delivery: is_true(&from["delivery"]),
        is_content_type: is_true(&from["contentType"]),
        input: is_true(&from["input"]),
        now: is_true(&from["now"]),
        value: from["value"].as_str().map(str::to_owned),
        template: from.get("template").map(template),
    }
}

fn template(from: &Value) -> Template {
    Template {
        text: text(&from["text"]),
        names: texts(&from["names"]),
        literals: texts(&from["literals"]),
        encoded: is_true(&from["encoded"]),
        separator: text(&from["separator"]),
    }
}

/// How payloads of a schema document are written, and what they are held to.
#[derive(Debug)]
pub struct PayloadSchema {
    json: &'static str,
    table: OnceLock<SchemaTable>,
}

/// What values of a schema are held to.
#[derive(Debug)]
pub(super) enum SchemaTable {
    Json(Rules),
    Binary(Wire),
}

impl PayloadSchema {
    /// A schema in JSON, as generated code has it.
    #[must_use]
    pub const fn new(json: &'static str) -> Self {
        let table = OnceLock::new();
        Self { json, table }
    }

    pub(super) fn table(&self) -> &SchemaTable {
        self.table.get_or_init(|| {
            let table = parsed(self.json);
            match table["format"].as_str() {
                Some("json") => SchemaTable::Json(Rules::new(&table["rules"])),
                format => SchemaTable::Binary(Wire::new(format == Some("avro"), &table["wire"])),
            }
        })
    }
}
