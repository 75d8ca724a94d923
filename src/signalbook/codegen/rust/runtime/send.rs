//! Messages as records of Kafka, as requests of HTTP, and as events in JSON.

use serde_json::{Map, Value};

use super::base64;
use super::finding::OutboundError;
use super::outbound::Outbound;
use super::template::percent_encoded;

pub(super) const JSON_EVENT: &str = "application/cloudevents+json";

/// How an event is sent, where its definition does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Attributes in headers.
    Binary,
    /// The event in JSON.
    Structured,
}

impl Mode {
    fn name(self) -> &'static str {
        match self {
            Self::Binary => "binary",
            Self::Structured => "structured",
        }
    }
}

/// What a record has where its definition does not say.
#[derive(Clone, Copy, Debug, Default)]
pub struct KafkaOptions<'a> {
    /// The topic.
    pub topic: Option<&'a str>,
    /// The key.
    pub key: Option<&'a str>,
    /// How an event is sent; binary, if nothing is said.
    pub mode: Option<Mode>,
}

/// What a request has where its definition does not say.
#[derive(Clone, Copy, Debug, Default)]
pub struct HttpOptions<'a> {
    /// The method; `POST`, if nothing is said.
    pub method: Option<&'a str>,
    /// The path; `/`, if nothing is said.
    pub path: Option<&'a str>,
    /// How an event is sent; binary, if nothing is said.
    pub mode: Option<Mode>,
}

/// A record of Kafka.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KafkaRecord {
    /// The topic.
    pub topic: String,
    /// The key.
    pub key: Option<Vec<u8>>,
    /// The headers, in order; one may come several times.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The value.
    pub value: Option<Vec<u8>>,
}

/// A request of HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpRequest {
    /// The method.
    pub method: String,
    /// The path, without a query.
    pub path: String,
    /// Names and values of the query, decoded.
    pub query: Vec<(String, String)>,
    /// The headers.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Option<Vec<u8>>,
}

impl Outbound {
    /// The message as a record of Kafka.
    ///
    /// # Errors
    ///
    /// The definition is for another protocol or mode, or there is no topic.
    pub fn to_kafka(&self, given: &KafkaOptions<'_>) -> Result<KafkaRecord, OutboundError> {
        self.check_protocol("KAFKA")?;
        let topic = self
            .options
            .get("topic")
            .map(String::as_str)
            .or(given.topic);
        let topic = topic.unwrap_or_default();
        if !is_topic(topic) {
            let message = format!("{topic:?} is no topic of Kafka");
            return Err(self.fault("protocoloptions.topic", "value", message));
        }
        let key = self.options.get("key").map(String::as_str).or(given.key);
        let mode = self.mode(given.mode)?;
        let headers = self.headers(mode, "ce_", str::to_owned).into_iter();
        Ok(KafkaRecord {
            topic: topic.to_owned(),
            key: key.map(|key| key.as_bytes().to_vec()),
            headers: headers
                .map(|(name, value)| (name, value.into_bytes()))
                .collect(),
            value: self.sent_body(mode)?,
        })
    }

    /// The message as a request of HTTP.
    ///
    /// # Errors
    ///
    /// The definition is for another protocol or mode, or a header has what HTTP has no form for.
    pub fn to_http(&self, given: &HttpOptions<'_>) -> Result<HttpRequest, OutboundError> {
        self.check_protocol("HTTP")?;
        let mode = self.mode(given.mode)?;
        let headers = self.headers(mode, "ce-", encoded_header);
        if let Some((name, _)) = headers.iter().find(|(name, value)| !is_header(name, value)) {
            let path = format!("protocoloptions.headers.{name}");
            let message = "is no header of HTTP: these are printable ASCII".to_owned();
            return Err(self.fault(&path, "value", message));
        }
        let option = |name: &str| self.options.get(name).map(String::as_str);
        let query = self.options.iter().filter_map(|(name, value)| {
            let name = name.strip_prefix("query.")?;
            Some((name.to_owned(), value.clone()))
        });
        Ok(HttpRequest {
            method: option("method")
                .or(given.method)
                .unwrap_or("POST")
                .to_owned(),
            path: option("path").or(given.path).unwrap_or("/").to_owned(),
            query: query.collect(),
            headers,
            body: self.sent_body(mode)?,
        })
    }

    /// The event in the JSON event format.
    ///
    /// # Errors
    ///
    /// The message is no event.
    pub fn cloud_event(&self) -> Result<String, OutboundError> {
        let Some(attributes) = &self.attributes else {
            let message = "the message is no CloudEvent".to_owned();
            return Err(self.fault("envelope", "envelope", message));
        };
        let attributes = attributes.iter();
        let mut event: Map<_, _> = attributes
            .map(|(name, value)| (name.clone(), value.to_json()))
            .collect();
        if let Some(body) = &self.body {
            let (name, value) = data(body, &self.content_type);
            event.insert(name.to_owned(), value);
        }
        Ok(Value::Object(event).to_string())
    }

    fn fault(&self, path: &str, rule: &'static str, message: String) -> OutboundError {
        OutboundError::one(self.definition.xid(), path, rule, message)
    }

    fn check_protocol(&self, protocol: &str) -> Result<(), OutboundError> {
        let own = self.definition.protocol();
        if own.is_empty() || own == protocol {
            return Ok(());
        }
        Err(self.fault(
            "protocol",
            "protocol",
            format!("the definition is for {own}"),
        ))
    }

    /// The mode of an event; `None` for a message that is none.
    fn mode(&self, wanted: Option<Mode>) -> Result<Option<Mode>, OutboundError> {
        if self.attributes.is_none() {
            return Ok(None);
        }
        let declared = match self.definition.table().mode.as_str() {
            "binary" => Some(Mode::Binary),
            "structured" => Some(Mode::Structured),
            _ => None,
        };
        match (declared, wanted) {
            (Some(declared), Some(wanted)) if declared != wanted => {
                let message = format!(
                    "the definition says {}, not {}",
                    declared.name(),
                    wanted.name()
                );
                Err(self.fault("envelopeoptions.mode", "mode", message))
            }
            _ => Ok(declared.or(wanted).or(Some(Mode::Binary))),
        }
    }

    fn sent_body(&self, mode: Option<Mode>) -> Result<Option<Vec<u8>>, OutboundError> {
        if mode == Some(Mode::Structured) {
            return Ok(Some(self.cloud_event()?.into_bytes()));
        }
        Ok(self.body.clone())
    }

    fn headers(
        &self,
        mode: Option<Mode>,
        prefix: &str,
        escape: impl Fn(&str) -> String,
    ) -> Vec<(String, String)> {
        let mut content_type = match mode {
            Some(Mode::Structured) => JSON_EVENT,
            _ => &self.content_type,
        };
        let mut headers = Vec::new();
        if mode == Some(Mode::Binary) {
            for (name, value) in self.attributes.iter().flatten() {
                if name != "datacontenttype" {
                    headers.push((format!("{prefix}{name}"), escape(&value.to_string())));
                }
            }
        }
        for (name, value) in &self.options {
            match name.strip_prefix("headers.") {
                Some(name) if name.eq_ignore_ascii_case("content-type") => content_type = value,
                Some(name) => headers.push((name.to_owned(), value.clone())),
                None => {}
            }
        }
        if !content_type.is_empty() {
            headers.insert(0, ("content-type".to_owned(), content_type.to_owned()));
        }
        headers
    }
}

fn is_topic(text: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=249).contains(&text.len()) && text != "." && text != ".." && text.bytes().all(is_of_name)
}

fn is_header(name: &str, value: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+.^_`|~-".contains(&byte);
    let is_of_value = |byte: u8| byte == b'\t' || (0x20..0x7f).contains(&byte);
    let trimmed = value.trim_matches([' ', '\t']);
    !name.is_empty()
        && name.bytes().all(is_of_name)
        && value.bytes().all(is_of_value)
        && trimmed.len() == value.len()
}

/// An attribute as the binding for HTTP has it in a header.
fn encoded_header(text: &str) -> String {
    percent_encoded(text, |byte| {
        byte.is_ascii_graphic() && byte != b'"' && byte != b'%'
    })
}

/// The member of an event that has its payload, and the payload as it is there.
fn data(body: &[u8], content_type: &str) -> (&'static str, Value) {
    let data = if is_json(content_type) {
        serde_json::from_slice(body).ok()
    } else if content_type.starts_with("text/") {
        std::str::from_utf8(body).ok().map(Value::from)
    } else {
        None
    };
    // Data that is not what it says is kept as bytes.
    match data {
        Some(data) => ("data", data),
        None => ("data_base64", Value::String(base64::encode(body))),
    }
}

pub(super) fn is_json(content_type: &str) -> bool {
    let name = media_type(content_type);
    name == "application/json" || name == "text/json" || name.ends_with("+json")
}

pub(super) fn media_type(content_type: &str) -> String {
    let name = content_type.split(';').next().unwrap_or_default();
    name.trim().to_lowercase()
}
