import { check, type Finding, type Json, type Rules } from "./rules.js";
import { decode, encode, type Wire, WireError } from "./wire.js";

export type { Finding, Json } from "./rules.js";

/** What a message declares: an attribute of its event, or an option of its protocol. */
interface Property {
  name: string;
  path: string;
  type: string;
  attribute?: boolean;
  required?: boolean;
  multiple?: boolean;
  delivery?: boolean;
  contentType?: boolean;
  input?: boolean;
  now?: boolean;
  value?: string;
  template?: Template;
}

/** A text with placeholders: a URI template of level 1 (RFC 6570). */
interface Template {
  text: string;
  names: string[];
  literals: string[];
  encoded: boolean;
  separator: string;
}

/** A message definition, as generated modules have it. */
export interface Definition {
  xid: string;
  id: string;
  event: boolean;
  protocol: string;
  mode: string;
  contentType: string;
  stated: boolean;
  /** Names of the content type beside its own. */
  aliases: string[];
  dataschema?: string;
  root?: number;
  properties: Property[];
}

/** How payloads of a schema are written, and what they are held to. */
export type PayloadSchema =
  | { readonly format: "json"; readonly rules: Rules }
  | { readonly format: "avro" | "protobuf"; readonly wire: Wire };

/** A value of an attribute. */
export type Attribute = string | number | boolean;

type Context = Record<string, string>;

/** A message that was built, for whatever sends it. */
export interface Outbound {
  readonly definition: Definition;
  /** The values of placeholders. */
  readonly context: Readonly<Context>;
  /** The context attributes of the CloudEvent; null for a message that is none. */
  readonly attributes: Readonly<Record<string, Attribute>> | null;
  /** The options of the protocol by name, such as `topic`, `key`, `headers.kind`. */
  readonly options: Readonly<Record<string, string>>;
  readonly body: Uint8Array | null;
  readonly contentType: string;
}

/** A message as it was received. */
export interface Message {
  /** `KAFKA`, `HTTP` and so on; empty for an event in a file. */
  readonly protocol: string;
  readonly contentType: string;
  /** The attributes of an event in binary mode; null where there are none. */
  readonly attributes: Readonly<Record<string, Attribute>> | null;
  /** The options of the protocol by name; several values for a header that comes several times. */
  readonly options: Readonly<Record<string, string | readonly string[]>>;
  readonly body: Uint8Array | null;
}

/** What a message of a definition says. */
export interface TypedMessage<P> {
  readonly payload: P;
  /** The values of placeholders. */
  readonly context: Readonly<Context>;
  /** The context attributes of the CloudEvent; null for a message that is none. */
  readonly attributes: Readonly<Record<string, Attribute>> | null;
  readonly message: Message;
}

/** A message that its definition does not allow. */
export class OutboundError extends Error {
  constructor(
    readonly xid: string,
    readonly findings: readonly Finding[],
  ) {
    super(`${xid}: ${findings.map(said).join("; ")}`);
    this.name = "OutboundError";
  }
}

/** A received message that is not of the definition it was read by. */
export class UnexpectedMessage extends Error {
  constructor(
    readonly xid: string,
    readonly findings: readonly Finding[],
  ) {
    super(`${xid}: ${findings.map(said).join("; ")}`);
    this.name = "UnexpectedMessage";
  }
}

function said(finding: Finding): string {
  return `${finding.path}: ${finding.message} [${finding.rule}]`;
}

/** The inputs of a build by their names in the definition; undefined is one that was not given. */
export type Inputs = Readonly<Record<string, Attribute | undefined>>;

const SPECVERSION = "1.0";
const JSON_EVENT = "application/cloudevents+json";
const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

/** A message of a definition. Throws OutboundError with everything that is wrong. */
export function build(
  definition: Definition,
  schema: PayloadSchema | null,
  payload: unknown,
  context: Inputs,
  values: Inputs,
): Outbound {
  const findings: Finding[] = [];
  const known = placeholders(context, findings);
  const options: Record<string, string> = {};
  const found: Record<string, Attribute> = {};
  for (const property of definition.properties) {
    const value = valueOf(definition, property, known, values, findings);
    if (value === undefined) continue;
    if (property.attribute) found[property.name] = simple(property.type, value);
    else options[property.path.slice("protocoloptions.".length)] = String(value);
  }
  const body = written(definition, schema, payload, findings);
  const stated = found["datacontenttype"] ?? headerOf(options, "content-type");
  const contentType = body === null ? "" : String(stated ?? definition.contentType);
  const attributes = definition.event ? eventAttributes(definition, found, contentType) : null;
  if (attributes && findings.length === 0) findings.push(...invalidAttributes(attributes));
  if (findings.length > 0) throw new OutboundError(definition.xid, findings);
  return { definition, context: { ...known }, attributes, options, body, contentType };
}

/** An object without the members that all others inherit, such as constructor. */
function empty<T>(): Record<string, T> {
  return Object.create(null) as Record<string, T>;
}

function own<T>(members: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.prototype.hasOwnProperty.call(members, name) ? members[name] : undefined;
}

function placeholders(given: Inputs, findings: Finding[]): Context {
  const known = empty<string>();
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined) continue;
    if (typeof value === "string" && value !== "") known[name] = value;
    else findings.push({ path: `{${name}}`, rule: "context", message: "must be text, and not empty" });
  }
  return known;
}

function valueOf(
  definition: Definition,
  property: Property,
  context: Context,
  values: Inputs,
  findings: Finding[],
): Attribute | undefined {
  if (property.input) {
    const name = property.path.replace(/^envelopemetadata\./, "");
    const value = own(values, name);
    if (value !== undefined && isOfType(property.type, value)) return value;
    const rule = value === undefined ? "required" : "type";
    findings.push({ path: property.path, rule, message: `must be of type ${property.type}` });
    return undefined;
  }
  if (property.template) return expanded(property, property.template, context, findings);
  if (property.now) return new Date().toISOString();
  if (property.value !== undefined) return property.value;
  return property.attribute ? ownValue(definition, property) : undefined;
}

/** The value of an attribute that a definition leaves open. */
function ownValue(definition: Definition, property: Property): string | undefined {
  switch (property.name) {
    case "id":
      return crypto.randomUUID();
    case "type":
      return definition.id;
    case "time":
      return new Date().toISOString();
    case "datacontenttype":
      return property.required && definition.contentType ? definition.contentType : undefined;
    case "dataschema":
      return definition.dataschema;
    default:
      return undefined;
  }
}

function expanded(property: Property, template: Template, context: Context, findings: Finding[]): string | undefined {
  const missing = template.names.filter((name) => context[name] === undefined);
  if (missing.length > 0) {
    const message = `${template.text} needs ${[...new Set(missing)].join(", ")}`;
    if (property.required) findings.push({ path: property.path, rule: "context", message });
    return undefined;
  }
  let text = template.literals[0] ?? "";
  template.names.forEach((name, place) => {
    text += quoted(template, context[name] ?? "") + (template.literals[place + 1] ?? "");
  });
  // Read back: values with the separator in them would come out as other values at the consumer.
  const read = matched(template, text);
  if (read && template.names.every((name) => read[name] === context[name])) return text;
  const message = `${template.text} would be ${text}, which is read as something else`;
  findings.push({ path: property.path, rule: "context", message });
  return undefined;
}

function isWhole(template: Template): boolean {
  return template.literals.length === 2 && template.literals.every((each) => each === "");
}

function quoted(template: Template, value: string): string {
  if (!template.encoded) return value;
  let text = "";
  for (const byte of encoder.encode(value)) {
    const character = String.fromCharCode(byte);
    text += /[A-Za-z0-9_.~-]/.test(character) ? character : hexadecimal(byte);
  }
  if (isWhole(template)) return text;
  return text.split(template.separator).join(hexadecimal(template.separator.charCodeAt(0)));
}

function hexadecimal(byte: number): string {
  return `%${byte.toString(16).toUpperCase().padStart(2, "0")}`;
}

/** What the placeholders of a template stand for in a text; null if it does not fit. */
function matched(template: Template, text: string): Context | null {
  const first = template.literals[0] ?? "";
  if (!text.startsWith(first)) return null;
  let place = first.length;
  const found = empty<string>();
  for (const [index, name] of template.names.entries()) {
    const literal = template.literals[index + 1] ?? "";
    const last = index === template.names.length - 1;
    if (last && !text.endsWith(literal)) return null;
    const end = last ? text.length - literal.length : text.indexOf(literal, place + 1);
    if (end <= place) return null;
    const raw = text.slice(place, end);
    if (!isWhole(template) && raw.includes(template.separator)) return null;
    const value = template.encoded ? unquoted(raw) : raw;
    if (found[name] !== undefined && found[name] !== value) return null;
    found[name] = value;
    place = end + literal.length;
  }
  return place === text.length ? found : null;
}

function unquoted(text: string): string {
  if (!text.includes("%")) return text;
  const bytes: number[] = [];
  for (let place = 0; place < text.length; place += 1) {
    const pair = text.slice(place + 1, place + 3);
    if (text[place] === "%" && /^[0-9A-Fa-f]{2}$/.test(pair)) {
      bytes.push(parseInt(pair, 16));
      place += 2;
    } else {
      const character = String.fromCodePoint(text.codePointAt(place) ?? 0);
      bytes.push(...encoder.encode(character));
      place += character.length - 1;
    }
  }
  try {
    return decoder.decode(Uint8Array.from(bytes));
  } catch {
    return text;
  }
}

/** The payload in bytes; what is wrong with it is added to the findings. */
function written(
  definition: Definition,
  schema: PayloadSchema | null,
  payload: unknown,
  findings: Finding[],
): Uint8Array | null {
  if (schema === null) {
    if (payload === undefined || payload === null) return null;
    if (payload instanceof Uint8Array) return payload;
    findings.push({ path: "data", rule: "type", message: "must be bytes, as no schema says how to write it" });
    return null;
  }
  const count = findings.length;
  const value = plain(payload, "data", findings);
  if (findings.length > count) return null;
  const root = definition.root ?? 0;
  if (schema.format !== "json") return caught(findings, () => encode(schema.format, schema.wire, root, value, "data"));
  findings.push(...check(schema.rules, root, value, "data"));
  return encoder.encode(JSON.stringify(value));
}

/** What a codec returns; null if it has something against the value, which is added to the findings. */
function caught<T>(findings: Finding[], codec: () => T): T | null {
  try {
    return codec();
  } catch (error) {
    if (!(error instanceof WireError)) throw error;
    findings.push(error.finding);
    return null;
  }
}

/** A value as JSON has it, without members that are undefined. */
function plain(value: unknown, path: string, findings: Finding[]): Json {
  if (value === null || typeof value === "boolean") return value;
  if (typeof value === "string") {
    if (/[\ud800-\udfff]/u.test(value)) findings.push({ path, rule: "json", message: "has half a character in it" });
    return value;
  }
  if (typeof value === "number" && Number.isFinite(value)) return value;
  if (Array.isArray(value)) return value.map((each, place) => plain(each, `${path}/${place}`, findings));
  if (typeof value === "object" && isPlain(value)) {
    const found: { [name: string]: Json } = {};
    for (const [name, each] of Object.entries(value)) {
      if (each !== undefined) define(found, name, plain(each, `${path}/${name}`, findings));
    }
    return found;
  }
  findings.push({ path, rule: "json", message: `${String(value)} has no form in JSON` });
  return null;
}

function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null || !("toJSON" in value || ArrayBuffer.isView(value));
}

/** Also a member called `__proto__`. */
function define(object: { [name: string]: Json }, name: string, value: Json): void {
  Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
}

function headerOf(options: Record<string, string>, name: string): string | undefined {
  const found = Object.keys(options).find((each) => each.toLowerCase() === `headers.${name}`);
  const value = found === undefined ? undefined : options[found];
  return value?.toLowerCase().startsWith("application/cloudevents") ? undefined : value;
}

function eventAttributes(
  definition: Definition,
  found: Record<string, Attribute>,
  contentType: string,
): Record<string, Attribute> {
  const { id = crypto.randomUUID(), source, type = definition.id, ...others } = found;
  const made: Record<string, Attribute> = { specversion: SPECVERSION, id };
  if (source !== undefined) made["source"] = source;
  Object.assign(made, { type }, others);
  if (definition.dataschema !== undefined) made["dataschema"] ??= definition.dataschema;
  delete made["datacontenttype"];
  if (contentType) made["datacontenttype"] = contentType;
  return made;
}

const URI = "[A-Za-z0-9\\-._~:/?#\\[\\]@!$&'()*+,;=%]";
const INTEGER = /^-?(0|[1-9]\d{0,19})$/;
const DATE = "\\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\\d|3[01])";
const ZONED = "([01]\\d|2[0-3]):[0-5]\\d:([0-5]\\d|60)(\\.\\d{1,12})?([Zz]|[+-]([01]\\d|2[0-3]):[0-5]\\d)";
const FORMS: Readonly<Record<string, RegExp>> = {
  binary: /^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/,
  boolean: /^(true|false)$/,
  duration: /^P(?!$)(\d+W|(\d+Y)?(\d+M)?(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d+)?S)?)?)$/,
  number: /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/,
  symbol: /^[A-Za-z0-9_]+$/,
  timestamp: new RegExp(`^${DATE}[Tt]${ZONED}$`),
  uri: new RegExp(`^[A-Za-z][A-Za-z0-9+.\\-]*:${URI}*$`),
  urireference: new RegExp(`^${URI}+$`),
  uuid: /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i,
};

function isOfType(type: string, value: Attribute): boolean {
  const text = String(value);
  if (type === "integer" || type === "ulong") {
    if (typeof value === "boolean" || !INTEGER.test(text)) return false;
    const [least, most] = type === "integer" ? [-(2n ** 31n), 2n ** 31n - 1n] : [0n, 2n ** 64n - 1n];
    return BigInt(text) >= least && BigInt(text) <= most;
  }
  const form = FORMS[type];
  return form === undefined ? type === "any" || typeof value === "string" : form.test(text);
}

/** Whole numbers and booleans as such, all else as it is. */
function simple(type: string, value: Attribute): Attribute {
  if (type === "boolean") return String(value) === "true";
  return type === "integer" && typeof value === "string" ? Number(value) : value;
}

const ATTRIBUTE_FORMS: Readonly<Record<string, string>> = {
  source: "urireference",
  dataschema: "uri",
  time: "timestamp",
};
const CORE = ["specversion", "id", "source", "type", "subject", "time", "dataschema", "datacontenttype"];
const FORBIDDEN = /[\u0000-\u001f\u007f-\u009f\ufdd0-\ufdef\ufffe\uffff]|[\ud800-\udfff]/u;

/** What is wrong with the context attributes of a CloudEvent. */
function invalidAttributes(attributes: Readonly<Record<string, Attribute>>): Finding[] {
  const findings: Finding[] = [];
  for (const name of CORE.slice(0, 4)) {
    if (attributes[name] === undefined) findings.push({ path: name, rule: "required", message: "is required" });
  }
  for (const [name, value] of Object.entries(attributes)) {
    const message = faultOf(name, value);
    if (message) findings.push({ path: name, rule: "cloudevents", message });
  }
  return findings;
}

function faultOf(name: string, value: Attribute): string {
  if (!/^[a-z0-9]+$/.test(name) || name === "data") return "is no name of an attribute";
  if (typeof value !== "string") {
    if (CORE.includes(name)) return "must be text";
    return typeof value === "boolean" || isOfType("integer", value) ? "" : "must be text, a boolean or a small integer";
  }
  if (FORBIDDEN.test(value)) return "has a control character, a noncharacter or half a character";
  if (!CORE.includes(name)) return "";
  if (value === "") return "must not be empty";
  if (name === "specversion" && value !== SPECVERSION) return `must be ${SPECVERSION}`;
  const form = ATTRIBUTE_FORMS[name];
  return form !== undefined && !isOfType(form, value) ? `must be of type ${form}` : "";
}

/** How an event is sent, where its definition does not say. */
export type Mode = "binary" | "structured";

function modeOf(outbound: Outbound, wanted: Mode | undefined): Mode | "" {
  if (outbound.attributes === null) return "";
  const declared = outbound.definition.mode;
  if (declared && wanted && wanted !== declared) {
    const message = `the definition says ${declared}, not ${wanted}`;
    throw new OutboundError(outbound.definition.xid, [{ path: "envelopeoptions.mode", rule: "mode", message }]);
  }
  return (declared || wanted || "binary") as Mode;
}

/** The event in the JSON event format. Throws OutboundError for a message that is none. */
export function cloudEvent(outbound: Outbound): string {
  if (outbound.attributes === null) {
    const message = "the message is no CloudEvent";
    throw new OutboundError(outbound.definition.xid, [{ path: "envelope", rule: "envelope", message }]);
  }
  return JSON.stringify({ ...outbound.attributes, ...dataOf(outbound.body, outbound.contentType) });
}

function dataOf(body: Uint8Array | null, contentType: string): Record<string, Json> {
  if (body === null) return {};
  try {
    if (isJson(contentType)) return { data: JSON.parse(decoder.decode(body)) as Json };
    if (contentType.startsWith("text/")) return { data: decoder.decode(body) };
  } catch {
    // Data that is not what it says is kept as bytes.
  }
  return { data_base64: base64(body) };
}

function base64(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

function isJson(contentType: string): boolean {
  const name = mediaType(contentType);
  return name === "application/json" || name === "text/json" || name.endsWith("+json");
}

function mediaType(contentType: string): string {
  return (contentType.split(";")[0] ?? "").trim().toLowerCase();
}

/** A record for Kafka, in the form that kafkajs and its like take. */
export interface KafkaRecord {
  topic: string;
  key: string | null;
  headers: Record<string, string>;
  value: Uint8Array | null;
}

/** A record as a consumer has it. */
export interface ReceivedRecord {
  readonly topic: string;
  readonly key?: string | Uint8Array | null;
  readonly headers?: Readonly<Record<string, HeaderValue | readonly HeaderValue[] | undefined>>;
  readonly value: Uint8Array | null;
}

type HeaderValue = string | Uint8Array;

/** The message as a record. `topic` and `key` are for definitions that do not say them. */
export function toKafka(outbound: Outbound, given: { topic?: string; key?: string; mode?: Mode } = {}): KafkaRecord {
  const { options, definition } = outbound;
  carried(definition, "KAFKA");
  const topic = options["topic"] ?? given.topic ?? "";
  if (!/^(?!\.{1,2}$)[A-Za-z0-9._-]{1,249}$/.test(topic)) {
    const message = `${JSON.stringify(topic)} is no topic of Kafka`;
    throw new OutboundError(definition.xid, [{ path: "protocoloptions.topic", rule: "value", message }]);
  }
  const { headers, body } = encoded(outbound, modeOf(outbound, given.mode), "ce_", (text) => text);
  return { topic, key: options["key"] ?? given.key ?? null, headers, value: body };
}

/** A request of HTTP. */
export interface HttpRequest {
  method: string;
  path: string;
  query: [string, string][];
  headers: Record<string, string>;
  body: Uint8Array | null;
}

/** The message as a request. `method` and `path` are for definitions that do not say them. */
export function toHttp(outbound: Outbound, given: { method?: string; path?: string; mode?: Mode } = {}): HttpRequest {
  const { options, definition } = outbound;
  carried(definition, "HTTP");
  const { headers, body } = encoded(outbound, modeOf(outbound, given.mode), "ce-", percentEncoded);
  const query = Object.entries(options).filter(([name]) => name.startsWith("query."));
  for (const [name, value] of Object.entries(headers)) {
    if (/^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/.test(name) && /^([\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?)?$/.test(value))
      continue;
    const message = "is no header of HTTP: these are printable ASCII";
    throw new OutboundError(definition.xid, [{ path: `protocoloptions.headers.${name}`, rule: "value", message }]);
  }
  return {
    method: options["method"] ?? given.method ?? "POST",
    path: options["path"] ?? given.path ?? "/",
    query: query.map(([name, value]) => [name.slice("query.".length), value]),
    headers,
    body,
  };
}

function carried(definition: Definition, protocol: string): void {
  if (definition.protocol === "" || definition.protocol === protocol) return;
  const message = `the definition is for ${definition.protocol}`;
  throw new OutboundError(definition.xid, [{ path: "protocol", rule: "protocol", message }]);
}

function encoded(
  outbound: Outbound,
  mode: Mode | "",
  prefix: string,
  escape: (text: string) => string,
): { headers: Record<string, string>; body: Uint8Array | null } {
  const headers = empty<string>();
  if (mode === "structured") headers["content-type"] = JSON_EVENT;
  else if (outbound.contentType) headers["content-type"] = outbound.contentType;
  if (mode === "binary") {
    for (const [name, value] of Object.entries(outbound.attributes ?? {})) {
      if (name !== "datacontenttype") headers[prefix + name] = escape(String(value));
    }
  }
  for (const [name, value] of Object.entries(outbound.options)) {
    if (!name.startsWith("headers.")) continue;
    const own = name.slice("headers.".length);
    headers[own.toLowerCase() === "content-type" ? "content-type" : own] = value;
  }
  const body = mode === "structured" ? encoder.encode(cloudEvent(outbound)) : outbound.body;
  return { headers: { ...headers }, body };
}

function percentEncoded(text: string): string {
  return text.replace(/[^\x21\x23\x24\x26-\x7e]+/gu, (found) => [...encoder.encode(found)].map(hexadecimal).join(""));
}

function percentDecoded(text: string): string {
  const bare = /^".*"$/.test(text) ? text.slice(1, -1).replace(/\\(.)/g, "$1") : text;
  return unquoted(bare);
}

/** A record as a message. */
export function fromKafka(record: ReceivedRecord): Message {
  const options: Record<string, string | string[]> = { topic: record.topic };
  if (record.key !== undefined && record.key !== null) options["key"] = textOf(record.key);
  const headers: [string, string[]][] = Object.entries(record.headers ?? {}).map(([name, value]) => {
    const several = value === undefined ? [] : typeof value === "string" || ArrayBuffer.isView(value) ? [value] : value;
    return [name, several.map(textOf)];
  });
  return received("KAFKA", headers, "ce_", (text) => text, options, record.value);
}

/** A request as a message; `headers` as they came, in any case. */
export function fromHttp(request: HttpRequest): Message {
  const options: Record<string, string | string[]> = { method: request.method.toUpperCase(), path: request.path };
  for (const [name, value] of request.query) {
    options[`query.${name}`] = [...[options[`query.${name}`] ?? []].flat(), value];
  }
  const headers = Object.entries(request.headers).map(([name, value]): [string, string[]] => [
    name.toLowerCase(),
    [value],
  ]);
  return received("HTTP", headers, "ce-", percentDecoded, options, request.body);
}

/** An event in the JSON event format as a message. */
export function fromCloudEvent(event: string | Uint8Array): Message {
  const body = typeof event === "string" ? encoder.encode(event) : event;
  return { protocol: "", contentType: JSON_EVENT, attributes: null, options: {}, body };
}

function received(
  protocol: string,
  headers: [string, string[]][],
  prefix: string,
  decode: (text: string) => string,
  options: Record<string, string | string[]>,
  body: Uint8Array | null,
): Message {
  const attributes = empty<Attribute>();
  let contentType = "";
  for (const [name, values] of headers) {
    options[`headers.${name}`] = values;
    if (name === "content-type") contentType = values[0] ?? "";
    else if (name.startsWith(prefix)) attributes[name.slice(prefix.length)] = decode(values.join(","));
  }
  const binary = CORE.slice(0, 4).every((name) => attributes[name] !== undefined);
  if (binary && contentType) attributes["datacontenttype"] = contentType;
  return { protocol, contentType, attributes: binary ? { ...attributes } : null, options, body };
}

function textOf(value: string | Uint8Array): string {
  return typeof value === "string" ? value : new TextDecoder().decode(value);
}

interface Opened {
  attributes: Readonly<Record<string, Attribute>> | null;
  body: Uint8Array | null;
  contentType: string;
  mode: string;
}

/** What a received message says. Throws UnexpectedMessage for what the definition does not allow. */
export function parse<P>(definition: Definition, schema: PayloadSchema | null, message: Message): TypedMessage<P> {
  const findings: Finding[] = [];
  const opened = open(definition, message, findings);
  if (definition.event && opened.attributes === null && findings.length === 0) {
    findings.push({ path: "", rule: "not_cloudevent", message: "the message is no CloudEvent" });
  }
  const context = empty<string>();
  if (findings.length === 0) declared(definition, message, opened, context, findings);
  const payload = findings.length === 0 ? read(definition, schema, opened, findings) : undefined;
  if (findings.length > 0) throw new UnexpectedMessage(definition.xid, findings);
  return { payload: payload as P, context: { ...context }, attributes: opened.attributes, message };
}

function open(definition: Definition, message: Message, findings: Finding[]): Opened {
  const { body, contentType, attributes } = message;
  const structured = mediaType(contentType).startsWith("application/cloudevents");
  if (!structured) {
    if (attributes) findings.push(...invalidAttributes(attributes));
    const own = attributes === null ? contentType : String(attributes["datacontenttype"] ?? "");
    return { attributes, body, contentType: own, mode: attributes === null ? "" : "binary" };
  }
  const nothing: Opened = { attributes: null, body: null, contentType: "", mode: "structured" };
  if (mediaType(contentType) !== JSON_EVENT) {
    findings.push({ path: "", rule: "content_type", message: `events of ${contentType} are not read here` });
    return nothing;
  }
  try {
    return eventOf(JSON.parse(decoder.decode(body ?? new Uint8Array())) as Json, findings);
  } catch (error) {
    findings.push({ path: "", rule: "json", message: `not JSON: ${String(error)} in a message of ${definition.xid}` });
    return nothing;
  }
}

function eventOf(members: Json, findings: Finding[]): Opened {
  if (typeof members !== "object" || members === null || Array.isArray(members)) {
    findings.push({ path: "", rule: "type", message: "a CloudEvent in JSON is an object" });
    return { attributes: null, body: null, contentType: "", mode: "structured" };
  }
  const { data, data_base64, ...rest } = members;
  const attributes = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== null)) as Record<
    string,
    Attribute
  >;
  findings.push(...invalidAttributes(attributes));
  const stated = String(attributes["datacontenttype"] ?? "");
  const contentType = stated || (data === undefined ? "" : "application/json");
  let body: Uint8Array | null = null;
  if (typeof data_base64 === "string") {
    if (data !== undefined || !isOfType("binary", data_base64)) {
      findings.push({ path: "data_base64", rule: "base64", message: "is no base64, or beside data" });
    } else body = Uint8Array.from(atob(data_base64), (character) => character.charCodeAt(0));
  } else if (data !== undefined) {
    const asText = stated !== "" && !isJson(stated) && typeof data === "string";
    body = encoder.encode(asText ? data : JSON.stringify(data));
  }
  return { attributes, body, contentType, mode: "structured" };
}

/** Hold what a message has to what its definition declares. */
function declared(
  definition: Definition,
  message: Message,
  opened: Opened,
  context: Context,
  findings: Finding[],
): void {
  if (definition.protocol && message.protocol && message.protocol !== definition.protocol) {
    const text = `must be ${definition.protocol}, not ${message.protocol}`;
    findings.push({ path: "protocol", rule: "protocol", message: text });
    return;
  }
  if (definition.mode && message.protocol && opened.mode !== definition.mode) {
    const text = `the content mode must be ${definition.mode}, not ${opened.mode || "none"}`;
    findings.push({ path: "mode", rule: "mode", message: text });
  }
  for (const property of definition.properties) {
    if (property.delivery || (!property.attribute && message.protocol !== definition.protocol)) continue;
    const value = property.attribute
      ? own(opened.attributes ?? {}, property.name)
      : own(message.options, property.name);
    const several = value === undefined ? [] : typeof value === "object" ? value : [value];
    const faults = several.map((each) => unfit(property, each, context));
    if (several.length === 0 && property.required) faults.push("is required");
    const fault = faults.every((each) => each !== "") ? faults[0] : undefined;
    if (fault !== undefined) findings.push({ path: property.name, rule: "value", message: fault });
  }
  const actual = opened.contentType;
  if (actual && definition.contentType && !isAllowed(definition, actual)) {
    findings.push({ path: "datacontenttype", rule: "content_type", message: `must be ${definition.contentType}` });
  }
}

/** Why a value is not what a property declares, or "". */
function unfit(property: Property, value: Attribute, context: Context): string {
  if (property.template) {
    const found = typeof value === "string" ? matched(property.template, value) : null;
    if (found === null) return `must fit ${property.template.text}, not ${JSON.stringify(value)}`;
    for (const [name, text] of Object.entries(found)) {
      if (context[name] !== undefined && context[name] !== text) return `has another {${name}} than is elsewhere`;
    }
    Object.assign(context, found);
    return "";
  }
  if (property.value === undefined) {
    return isOfType(property.type, value) ? "" : `must be of type ${property.type}, not ${JSON.stringify(value)}`;
  }
  const same = property.contentType
    ? sameContentType(property.value, String(value))
    : isSame(property.type, property.value, value);
  return same ? "" : `must be ${JSON.stringify(property.value)}, not ${JSON.stringify(value)}`;
}

function isSame(type: string, expected: string, actual: Attribute): boolean {
  const text = String(actual);
  if (text === expected) return true;
  if (["integer", "ulong", "number"].includes(type)) return text !== "" && Number(text) === Number(expected);
  if (type === "timestamp") return isOfType(type, actual) && Date.parse(text) === Date.parse(expected);
  if (type === "boolean" || type === "uuid") return text.toLowerCase() === expected.toLowerCase();
  return false;
}

function isAllowed(definition: Definition, actual: string): boolean {
  if (definition.stated) return sameContentType(definition.contentType, actual);
  const json = definition.contentType === "application/json" && isJson(actual);
  return json || [mediaType(definition.contentType), ...definition.aliases].includes(mediaType(actual));
}

function sameContentType(expected: string, actual: string): boolean {
  const have = parameters(actual);
  return mediaType(expected) === mediaType(actual) && parameters(expected).every((each) => have.includes(each));
}

function parameters(contentType: string): string[] {
  const parts = contentType.split(";").slice(1);
  return parts
    .filter((part) => part.includes("="))
    .map((part) => {
      const [name = "", ...rest] = part.split("=");
      const value = rest.join("=").trim().replace(/^"|"$/g, "");
      return `${name.trim().toLowerCase()}=${name.trim().toLowerCase() === "charset" ? value.toLowerCase() : value}`;
    });
}

function read(definition: Definition, schema: PayloadSchema | null, opened: Opened, findings: Finding[]): unknown {
  if (schema === null) return opened.body;
  if (opened.body === null) {
    findings.push({ path: "data", rule: "required", message: "there is no payload, but the definition has a schema" });
    return undefined;
  }
  const { body } = opened;
  const root = definition.root ?? 0;
  if (schema.format !== "json") return caught(findings, () => decode(schema.format, schema.wire, root, body, "data"));
  try {
    const value = JSON.parse(decoder.decode(body)) as Json;
    findings.push(...check(schema.rules, root, value, "data"));
    return value;
  } catch (error) {
    findings.push({ path: "data", rule: "json", message: `not JSON: ${String(error)}` });
    return undefined;
  }
}
