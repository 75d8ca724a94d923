//! Runs generated crates: one task a line as JSON, one answer a line. Values that are bytes are base64.

use std::io::{self, BufRead, Write};

use serde_json::{json, Map, Value};

mod messages; // which there are, written by the test

/// An answer that is an error: its name, and the findings.
pub struct Failure(&'static str, Vec<Value>);

pub type Answer = Result<Value, Failure>;

fn text<'a>(task: &'a Value, name: &str) -> Option<&'a str> {
    task[name].as_str()
}

/// Bytes in base64, by the codec of Protobuf: the generated code has no other for the public.
fn bytes(value: &Value) -> Option<Vec<u8>> {
    let wire = shop::runtime::Wire::new(true, &json!([{"kind": "fixed", "size": 0}, {"kind": "bytes"}]));
    value.as_str()?;
    let written = wire.encode(1, value, "").expect("base64");
    let length = written.iter().take_while(|byte| **byte > 127).count() + 1;
    Some(written[length..].to_vec())
}

fn base64(bytes: &[u8]) -> Value {
    let table = json!([{"kind": "fixed", "size": bytes.len()}]);
    let wire = shop::runtime::Wire::new(true, &table);
    wire.decode(0, bytes, "").expect("bytes")
}

fn sent_bytes(bytes: Option<&Vec<u8>>) -> Value {
    bytes.map_or(Value::Null, |bytes| base64(bytes))
}

/// The value of a parameter, which may be called otherwise than its placeholder; empty if it is not given.
pub fn value(task: &Value, name: &str) -> String {
    let plain = |name: &str| name.replace('_', "").to_lowercase();
    let values = task["values"].as_object().into_iter().flatten();
    let found = values.filter(|(given, _)| plain(given) == plain(name)).map(|(_, value)| value);
    found.filter_map(Value::as_str).next().unwrap_or_default().to_owned()
}

/// Where a value has a member that a type has no room for.
pub fn lost(given: &Value, kept: &Value, path: &str) -> Option<String> {
    match (given, kept) {
        (Value::Object(given), Value::Object(kept)) => given.iter().find_map(|(name, value)| {
            let below = format!("{path}/{name}");
            match kept.get(name) {
                Some(kept) => lost(value, kept, &below),
                None => Some(below),
            }
        }),
        (Value::Array(given), Value::Array(kept)) => {
            let pairs = given.iter().zip(kept).enumerate();
            pairs.into_iter().find_map(|(place, (given, kept))| lost(given, kept, &format!("{path}/{place}")))
        }
        _ => None,
    }
}

/// What a program does with messages of one crate.
macro_rules! adapter {
    ($name:ident, $root:ident) => {
        pub mod $name {
            use $root::runtime::*;

            use super::*;

            fn findings(found: &[Finding]) -> Vec<Value> {
                let found = found.iter();
                found.map(|each| json!({"path": each.path, "rule": each.rule, "message": each.message})).collect()
            }

            fn outbound(error: OutboundError) -> Failure {
                Failure("OutboundError", findings(&error.findings))
            }

            fn attributes(found: Option<&Attributes>) -> Value {
                let members = |found: &Attributes| found.iter().map(|(name, each)| (name.clone(), each.to_json())).collect();
                found.map_or(Value::Null, |found| Value::Object(members(found)))
            }

            /// The payload of a task as its type has it.
            pub fn payload<P: PayloadType>(task: &Value) -> Result<P, Failure> {
                let given = &task["payload"];
                let unfit = |finding| Failure("OutboundError", findings(&[finding]));
                let payload = P::from_json(given, &Path::Root("data")).map_err(unfit)?;
                let kept = payload.to_json(&Path::Root("data"), 0).map_err(unfit)?;
                match lost(given, &kept, "data") {
                    Some(path) => Err(Failure("OutboundError", vec![json!({"path": path, "rule": "type"})])),
                    None => Ok(payload),
                }
            }

            pub fn sent(task: &Value, built: Result<Outbound, OutboundError>) -> Answer {
                let built = built.map_err(outbound)?;
                let given = &task["given"];
                let mode = match text(given, "mode") {
                    Some("structured") => Some(Mode::Structured),
                    Some("binary") => Some(Mode::Binary),
                    _ => None,
                };
                match text(task, "action") {
                    Some("kafka") => {
                        let options = KafkaOptions { topic: text(given, "topic"), key: text(given, "key"), mode };
                        let record = built.to_kafka(&options).map_err(outbound)?;
                        let utf8 = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
                        let headers = record.headers.iter().map(|(name, value)| (name.clone(), utf8(value).into()));
                        Ok(json!({
                            "topic": record.topic, "key": record.key.as_deref().map(utf8),
                            "headers": headers.collect::<Map<_, _>>(), "value": sent_bytes(record.value.as_ref()),
                        }))
                    }
                    Some("http") => {
                        let options = HttpOptions { mode, ..HttpOptions::default() };
                        let request = built.to_http(&options).map_err(outbound)?;
                        let headers = request.headers.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
                        Ok(json!({
                            "method": request.method, "path": request.path, "query": request.query,
                            "headers": headers.collect::<Map<_, _>>(), "body": sent_bytes(request.body.as_ref()),
                        }))
                    }
                    Some("event") => Ok(built.cloud_event().map_err(outbound)?.into()),
                    _ => Ok(json!({
                        "protocol": built.definition.protocol(), "contentType": built.content_type,
                        "options": built.options, "body": sent_bytes(built.body.as_ref()),
                    })),
                }
            }

            pub fn received(task: &Value) -> Message {
                if let Some(event) = text(task, "event") {
                    return Message::from_cloud_event(event);
                }
                let headers = |from: &Value| -> Vec<(String, String)> {
                    let members = from["headers"].as_object().expect("headers").iter();
                    members.map(|(name, value)| (name.clone(), value.as_str().expect("text").to_owned())).collect()
                };
                let owned = |value: &Value| value.as_str().expect("text").to_owned();
                if let Some(record) = task.get("record") {
                    let headers = headers(record).into_iter();
                    return Message::from_kafka(KafkaRecord {
                        topic: owned(&record["topic"]),
                        key: text(record, "key").map(|key| key.as_bytes().to_vec()),
                        headers: headers.map(|(name, value)| (name, value.into_bytes())).collect(),
                        value: bytes(&record["value"]),
                    });
                }
                if let Some(request) = task.get("request") {
                    return Message::from_http(HttpRequest {
                        method: owned(&request["method"]),
                        path: owned(&request["path"]),
                        query: Vec::new(),
                        headers: headers(request),
                        body: bytes(&request["body"]),
                    });
                }
                let message = &task["message"];
                let options = message["options"].as_object().expect("options").iter();
                Message {
                    protocol: owned(&message["protocol"]),
                    content_type: owned(&message["contentType"]),
                    attributes: None,
                    options: options.map(|(name, value)| (name.clone(), vec![owned(value)])).collect(),
                    body: bytes(&message["body"]),
                }
            }

            fn failed(error: UnexpectedMessage) -> Failure {
                Failure("UnexpectedMessage", findings(&error.findings))
            }

            /// What a message says, its payload as its type has it.
            pub fn read<P: PayloadType>(read: Result<TypedMessage<P>, UnexpectedMessage>) -> Answer {
                let read = read.map_err(failed)?;
                let payload = read.payload.to_json(&Path::Root("data"), 0);
                let payload = payload.map_err(|finding| Failure("UnexpectedMessage", findings(&[finding])))?;
                Ok(json!({"payload": payload, "context": read.context, "attributes": attributes(read.attributes.as_ref())}))
            }

            pub fn read_bytes(read: Result<TypedMessage<Option<Vec<u8>>>, UnexpectedMessage>) -> Answer {
                let read = read.map_err(failed)?;
                Ok(json!({"payload": sent_bytes(read.payload.as_ref()), "context": read.context}))
            }

            pub fn finding(finding: Finding) -> Failure {
                Failure("WireError", findings(&[finding]))
            }

            pub fn checked(found: &[Finding]) -> Value {
                findings(found).into()
            }
        }
    };
}

adapter!(of_shop, shop);
adapter!(of_hard, hard);

fn answer(task: &Value) -> Answer {
    let root = task["root"].as_u64().unwrap_or(0) as usize;
    let wire = || shop::runtime::Wire::new(task["format"] == "avro", &task["wire"]);
    match text(task, "action") {
        Some("check") => {
            let rules = shop::runtime::Rules::new(&task["rules"]);
            Ok(of_shop::checked(&rules.check(root, &task["value"], "data")))
        }
        Some("encode") => {
            let written = wire().encode(root, &task["value"], "data");
            Ok(base64(&written.map_err(of_shop::finding)?))
        }
        Some("decode") => {
            let body = bytes(&task["value"]).expect("bytes");
            wire().decode(root, &body, "data").map_err(of_shop::finding)
        }
        _ => messages::answer(text(task, "module").expect("a module"), task),
    }
}

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let task = serde_json::from_str(&line?)?;
        let answer = match answer(&task) {
            Ok(result) => json!({"result": result}),
            Err(Failure(error, findings)) => json!({"error": error, "findings": findings}),
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}
