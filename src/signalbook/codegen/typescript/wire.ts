import type { Finding, Json } from "./rules.js";

/** One type of Avro or Protobuf; others are places in the table. */
export interface WireNode {
  kind: string;
  logical?: string;
  precision?: number;
  scale?: number;
  size?: number;
  symbols?: string[];
  of?: number;
  branches?: number[];
  fields?: WireField[];
  numbers?: { [name: string]: number };
  closed?: boolean;
}

/** A field of a record or a message. */
export interface WireField {
  name: string;
  of: number;
  default?: Json;
  number?: number;
  label?: string;
  key?: number;
  oneof?: string;
}

export type Wire = readonly WireNode[];

type Members = { [name: string]: Json };

const DEEPEST = 64;
const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { fatal: true });

/** What is wrong with a value or with bytes, and where. */
export class WireError extends Error {
  readonly finding: Finding;

  constructor(path: string, rule: string, message: string) {
    super(`${path}: ${message}`);
    this.name = "WireError";
    this.finding = { path, rule, message };
  }
}

/** A value in Avro's or Protobuf's binary encoding. Throws WireError. */
export function encode(format: string, wire: Wire, root: number, value: Json, path: string): Uint8Array {
  const writer = new Writer();
  if (format === "avro") new AvroWriter(wire, writer).write(root, value, path, 0);
  else new ProtobufWriter(wire, writer).body(root, value, path, 0);
  return writer.bytes();
}

/** The value in bytes of Avro or Protobuf. Throws WireError. */
export function decode(format: string, wire: Wire, root: number, bytes: Uint8Array, path: string): Json {
  const reader = new Reader(bytes, path);
  if (format !== "avro") return new ProtobufReader(wire).body(root, reader, path, 0);
  const value = new AvroReader(wire, reader).read(root, path, 0);
  if (reader.left > 0) throw new WireError(path, "avro", `${reader.left} bytes follow the datum`);
  return value;
}

function nodeAt(wire: Wire, index: number | undefined): WireNode {
  return wire[index ?? -1] ?? { kind: "null" };
}

function nested(path: string, depth: number): void {
  if (depth > DEEPEST) throw new WireError(path, "depth", `nested deeper than ${DEEPEST} levels`);
}

function wrong(value: Json, kind: string, path: string): WireError {
  return new WireError(path, "type", `must be of type ${kind}, not ${JSON.stringify(value).slice(0, 100)}`);
}

function members(value: Json, kind: string, path: string): Members {
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw wrong(value, kind, path);
  return value;
}

function has(value: object, name: string): boolean {
  return Object.prototype.hasOwnProperty.call(value, name);
}

function define(object: Members, name: string, value: Json): void {
  Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
}

function whole(value: Json, kind: string, least: bigint, most: bigint, path: string): bigint {
  if (!Number.isSafeInteger(value)) throw wrong(value, kind, path);
  const found = BigInt(value as number);
  if (found < least || found > most) throw new WireError(path, "range", `${found} is beyond ${kind}`);
  return found;
}

function small(value: bigint, path: string): number {
  if (value > BigInt(Number.MAX_SAFE_INTEGER) || value < -BigInt(Number.MAX_SAFE_INTEGER)) {
    throw new WireError(path, "range", `${value} is beyond what a number holds`);
  }
  return Number(value);
}

function fromBase64(value: Json, kind: string, path: string): Uint8Array {
  if (typeof value !== "string" || !/^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(value)) {
    throw wrong(value, `${kind} (base64)`, path);
  }
  return Uint8Array.from(atob(value), (character) => character.charCodeAt(0));
}

function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return btoa(text);
}

class Writer {
  private buffer = new Uint8Array(256);
  private length = 0;

  bytes(): Uint8Array {
    return this.buffer.slice(0, this.length);
  }

  raw(bytes: Uint8Array): void {
    while (this.length + bytes.length > this.buffer.length) {
      const larger = new Uint8Array(this.buffer.length * 2);
      larger.set(this.buffer);
      this.buffer = larger;
    }
    this.buffer.set(bytes, this.length);
    this.length += bytes.length;
  }

  varint(value: bigint): void {
    const bytes: number[] = [];
    let left = BigInt.asUintN(64, value);
    while (left > 127n) {
      bytes.push(Number(left & 127n) | 128);
      left >>= 7n;
    }
    bytes.push(Number(left));
    this.raw(Uint8Array.from(bytes));
  }

  zigzag(value: bigint): void {
    this.varint((value << 1n) ^ (value >> 63n));
  }

  /** Bytes behind their length; Avro's lengths are signed. */
  sized(bytes: Uint8Array, signed: boolean): void {
    if (signed) this.zigzag(BigInt(bytes.length));
    else this.varint(BigInt(bytes.length));
    this.raw(bytes);
  }

  fixed(size: 4 | 8, set: (view: DataView) => void): void {
    const view = new DataView(new ArrayBuffer(size));
    set(view);
    this.raw(new Uint8Array(view.buffer));
  }

  /** A float or a double, in which Avro and Protobuf are alike. */
  real(kind: string, value: Json, path: string): void {
    if (typeof value !== "number") throw wrong(value, kind, path);
    if (kind === "float") this.fixed(4, (view) => view.setFloat32(0, value, true));
    else this.fixed(8, (view) => view.setFloat64(0, value, true));
  }

  text(value: Json, path: string, signed: boolean): void {
    if (typeof value !== "string") throw wrong(value, "string", path);
    this.sized(encoder.encode(value), signed);
  }
}

class Reader {
  private place = 0;

  constructor(
    private readonly bytes: Uint8Array,
    private readonly root: string,
  ) {}

  get left(): number {
    return this.bytes.length - this.place;
  }

  raw(count: number): Uint8Array {
    if (count < 0 || count > this.left) throw new WireError(this.root, "decode", "the payload ends too early");
    this.place += count;
    return this.bytes.slice(this.place - count, this.place);
  }

  varint(): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.raw(1)[0] ?? 0;
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return BigInt.asUintN(64, value);
    }
    throw new WireError(this.root, "decode", "a number has more than ten bytes");
  }

  zigzag(): bigint {
    const value = this.varint();
    return (value >> 1n) ^ -(value & 1n);
  }

  sized(signed: boolean): Uint8Array {
    const size = signed ? this.zigzag() : this.varint();
    return this.raw(size > BigInt(this.left) ? -1 : Number(size));
  }

  text(signed: boolean, path: string): string {
    try {
      return decoder.decode(this.sized(signed));
    } catch (error) {
      throw error instanceof WireError ? error : new WireError(path, "decode", "is not in UTF-8");
    }
  }

  fixed(size: 4 | 8): DataView {
    return new DataView(this.raw(size).buffer);
  }
}

const DAY = 86_400_000n;
const TIMESTAMP = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)$/;

/** Nanoseconds since 1970 of an RFC 3339 timestamp. */
function instant(value: Json, path: string): bigint {
  const found = typeof value === "string" ? TIMESTAMP.exec(value) : null;
  const milliseconds = found && typeof value === "string" ? Date.parse(value.replace(/\.\d+/, "")) : NaN;
  if (found === null || Number.isNaN(milliseconds)) throw wrong(value, "timestamp", path);
  return BigInt(milliseconds) * 1_000_000n + BigInt((found[7] ?? "").padEnd(9, "0"));
}

function timestamp(nanoseconds: bigint, path: string): string {
  const seconds = floorDivided(nanoseconds, 1_000_000_000n);
  const date = new Date(Number(seconds) * 1000);
  if (Number.isNaN(date.getTime()) || date.getUTCFullYear() < 1 || date.getUTCFullYear() > 9999) {
    throw new WireError(path, "range", "is a time beyond the years 1 to 9999");
  }
  return `${date.toISOString().slice(0, 19)}${fraction(nanoseconds - seconds * 1_000_000_000n)}Z`;
}

function fraction(nanoseconds: bigint): string {
  const digits = nanoseconds.toString().padStart(9, "0").replace(/0+$/, "");
  return digits && `.${digits}`;
}

function floorDivided(value: bigint, by: bigint): bigint {
  const quotient = value / by;
  return value % by < 0n ? quotient - 1n : quotient;
}

/** What stands for a value of a logical type in Avro: a whole number. */
function unlogical(node: WireNode, value: Json, path: string): bigint {
  if (node.logical === "date") {
    const milliseconds = /^\d{4}-\d\d-\d\d$/.test(String(value)) ? Date.parse(`${String(value)}T00:00:00Z`) : NaN;
    if (Number.isNaN(milliseconds)) throw wrong(value, "date", path);
    return BigInt(milliseconds) / DAY;
  }
  const step = node.logical?.endsWith("millis") ? 1_000_000n : 1_000n;
  if (node.logical?.startsWith("timestamp")) return floorDivided(instant(value, path), step);
  const found = /^([01]\d|2[0-3]):([0-5]\d):([0-5]\d)(?:\.(\d{1,9}))?$/.exec(String(value));
  if (!found) throw wrong(value, "time", path);
  const seconds = BigInt(found[1] ?? 0) * 3600n + BigInt(found[2] ?? 0) * 60n + BigInt(found[3] ?? 0);
  return (seconds * 1_000_000_000n + BigInt((found[4] ?? "").padEnd(9, "0"))) / step;
}

function logical(node: WireNode, value: bigint, path: string): Json {
  if (node.logical === "date") return timestamp(value * DAY * 1_000_000n, path).slice(0, 10);
  const nanoseconds = value * (node.logical?.endsWith("millis") ? 1_000_000n : 1_000n);
  if (node.logical?.startsWith("timestamp")) return timestamp(nanoseconds, path);
  if (nanoseconds < 0n || nanoseconds >= DAY * 1_000_000n) throw new WireError(path, "range", "is no time of a day");
  return timestamp(nanoseconds, path).slice(11, -1);
}

/** The digits of a decimal, with its scale, as two's complement. */
function undecimal(node: WireNode, value: Json, path: string): Uint8Array {
  const found = typeof value === "string" ? /^(-?)(\d+)(?:\.(\d+))?$/.exec(value) : null;
  if (found === null) throw wrong(value, "decimal (text)", path);
  const [scale, decimals] = [node.scale ?? 0, found[3] ?? ""];
  const digits = `${found[2] ?? ""}${decimals.padEnd(scale, "0")}`.replace(/^0+(?=\d)/, "");
  if (decimals.length > scale || digits.length > (node.precision ?? 0)) {
    throw new WireError(path, "range", `must have ${node.precision} digits at most, ${scale} behind the point`);
  }
  const unscaled = BigInt(`${found[1] ?? ""}${digits}`);
  const bytes: number[] = [];
  let left = unscaled;
  do {
    bytes.unshift(Number(BigInt.asUintN(8, left)));
    left >>= 8n;
  } while (left !== 0n && left !== -1n);
  if (unscaled < 0n !== (bytes[0] ?? 0) > 127) bytes.unshift(unscaled < 0n ? 255 : 0);
  while (node.kind === "fixed" && bytes.length < (node.size ?? 0)) bytes.unshift(unscaled < 0n ? 255 : 0);
  return Uint8Array.from(bytes);
}

function decimal(node: WireNode, bytes: Uint8Array): string {
  let unscaled = 0n;
  for (const byte of bytes) unscaled = (unscaled << 8n) | BigInt(byte);
  unscaled = BigInt.asIntN(bytes.length * 8, unscaled);
  const scale = node.scale ?? 0;
  const digits = (unscaled < 0n ? -unscaled : unscaled).toString().padStart(scale + 1, "0");
  const sign = unscaled < 0n ? "-" : "";
  return scale === 0 ? sign + digits : `${sign}${digits.slice(0, -scale)}.${digits.slice(-scale)}`;
}

const [INT, LONG] = [2n ** 31n, 2n ** 63n];

class AvroWriter {
  constructor(
    private readonly wire: Wire,
    private readonly out: Writer,
  ) {}

  write(index: number, value: Json, path: string, depth: number): void {
    const node = nodeAt(this.wire, index);
    nested(path, depth);
    switch (node.kind) {
      case "null":
        if (value !== null) throw wrong(value, "null", path);
        return;
      case "boolean":
        if (typeof value !== "boolean") throw wrong(value, "boolean", path);
        return this.out.raw(Uint8Array.of(value ? 1 : 0));
      case "int":
      case "long": {
        const most = node.kind === "int" ? INT : LONG;
        const found = node.logical ? unlogical(node, value, path) : whole(value, node.kind, -most, most - 1n, path);
        return this.out.zigzag(found);
      }
      case "float":
      case "double":
        return this.out.real(node.kind, value, path);
      case "string":
        return this.out.text(value, path, true);
      case "bytes":
      case "fixed":
        return this.binary(node, value, path);
      case "enum": {
        const place = typeof value === "string" ? (node.symbols ?? []).indexOf(value) : -1;
        if (place < 0) throw new WireError(path, "enum", `must be one of ${(node.symbols ?? []).join(", ")}`);
        return this.out.zigzag(BigInt(place));
      }
      case "union":
        return this.union(node, value, path, depth);
      default:
        return this.container(node, value, path, depth);
    }
  }

  private binary(node: WireNode, value: Json, path: string): void {
    const bytes = node.logical === "decimal" ? undecimal(node, value, path) : fromBase64(value, node.kind, path);
    if (node.kind === "bytes") return this.out.sized(bytes, true);
    if (bytes.length !== node.size) throw new WireError(path, "size", `must have ${node.size} bytes`);
    this.out.raw(bytes);
  }

  /** The first branch that takes the value; what the last one has against it, if none does. */
  private union(node: WireNode, value: Json, path: string, depth: number): void {
    let failure = new WireError(path, "union", "is of no branch of the union");
    for (const [place, branch] of (node.branches ?? []).entries()) {
      const attempt = new Writer();
      try {
        new AvroWriter(this.wire, attempt).write(branch, value, path, depth + 1);
      } catch (error) {
        if (!(error instanceof WireError)) throw error;
        if (value !== null && nodeAt(this.wire, branch).kind !== "null") failure = error;
        continue;
      }
      this.out.zigzag(BigInt(place));
      return this.out.raw(attempt.bytes());
    }
    throw failure;
  }

  private container(node: WireNode, value: Json, path: string, depth: number): void {
    if (node.kind === "array") {
      if (!Array.isArray(value)) throw wrong(value, "array", path);
      if (value.length > 0) this.out.zigzag(BigInt(value.length));
      value.forEach((item, place) => this.write(node.of ?? -1, item, `${path}/${place}`, depth + 1));
      return this.out.zigzag(0n);
    }
    const found = members(value, node.kind, path);
    if (node.kind === "map") {
      const entries = Object.entries(found);
      if (entries.length > 0) this.out.zigzag(BigInt(entries.length));
      for (const [name, each] of entries) {
        this.out.sized(encoder.encode(name), true);
        this.write(node.of ?? -1, each, `${path}/${name}`, depth + 1);
      }
      return this.out.zigzag(0n);
    }
    const fields = node.fields ?? [];
    surplus(found, fields, path);
    for (const field of fields) {
      const below = `${path}/${field.name}`;
      const each = has(found, field.name) ? found[field.name] : field.default;
      if (each === undefined) throw new WireError(below, "required", "is required");
      this.write(field.of, each, below, depth + 1);
    }
  }
}

function surplus(found: Members, fields: readonly WireField[], path: string): void {
  const known = new Set(fields.map((field) => field.name));
  const name = Object.keys(found).find((each) => !known.has(each));
  if (name !== undefined) throw new WireError(`${path}/${name}`, "unknown", "is no field");
}

class AvroReader {
  constructor(
    private readonly wire: Wire,
    private readonly from: Reader,
  ) {}

  read(index: number, path: string, depth: number): Json {
    const node = nodeAt(this.wire, index);
    nested(path, depth);
    switch (node.kind) {
      case "null":
        return null;
      case "boolean":
        return this.from.raw(1)[0] === 1;
      case "int":
      case "long": {
        const value = this.from.zigzag();
        return node.logical ? logical(node, value, path) : small(value, path);
      }
      case "float":
        return finite(this.from.fixed(4).getFloat32(0, true), path);
      case "double":
        return finite(this.from.fixed(8).getFloat64(0, true), path);
      case "string":
        return this.from.text(true, path);
      case "bytes":
      case "fixed": {
        const bytes = node.kind === "bytes" ? this.from.sized(true) : this.from.raw(node.size ?? 0);
        return node.logical === "decimal" ? decimal(node, bytes) : toBase64(bytes);
      }
      case "enum":
        return this.chosen(node.symbols ?? [], path);
      case "union":
        return this.read(this.chosen(node.branches ?? [], path), path, depth + 1);
      default:
        return this.container(node, path, depth);
    }
  }

  private chosen<T>(choices: readonly T[], path: string): T {
    const place = this.from.zigzag();
    const found = place < 0n ? undefined : choices[Number(place)];
    if (found === undefined) throw new WireError(path, "decode", `there is no choice ${place}`);
    return found;
  }

  private container(node: WireNode, path: string, depth: number): Json {
    const found: Members = {};
    if (node.kind === "record") {
      for (const field of node.fields ?? []) {
        define(found, field.name, this.read(field.of, `${path}/${field.name}`, depth + 1));
      }
      return found;
    }
    const items: Json[] = [];
    for (let count = this.block(path, items.length); count > 0; count = this.block(path, items.length)) {
      for (; count > 0; count -= 1) {
        const name = node.kind === "map" ? this.from.text(true, path) : String(items.length);
        const value = this.read(node.of ?? -1, `${path}/${name}`, depth + 1);
        if (node.kind === "map") define(found, name, value);
        items.push(value);
      }
    }
    return node.kind === "map" ? found : items;
  }

  /** How many items follow; a negative count has the size of the block behind it. */
  private block(path: string, had: number): number {
    let count = this.from.zigzag();
    if (count < 0n) {
      count = -count;
      this.from.zigzag();
    }
    // Items may be of no bytes at all: what is there does not bound their number.
    if (count > 1_000_000n || had + Number(count) > 1_000_000) {
      throw new WireError(path, "decode", "has more than a million items");
    }
    return Number(count);
  }
}

function finite(value: number, path: string): number {
  if (!Number.isFinite(value)) throw new WireError(path, "range", `${value} has no form in JSON`);
  return value;
}

const BITS: Readonly<Record<string, [bigint, bigint]>> = {
  int32: [-INT, INT - 1n],
  sint32: [-INT, INT - 1n],
  sfixed32: [-INT, INT - 1n],
  uint32: [0n, 2n * INT - 1n],
  fixed32: [0n, 2n * INT - 1n],
  int64: [-LONG, LONG - 1n],
  sint64: [-LONG, LONG - 1n],
  sfixed64: [-LONG, LONG - 1n],
  uint64: [0n, 2n * LONG - 1n],
  fixed64: [0n, 2n * LONG - 1n],
};
const [VARINT, FIXED64, SIZED, FIXED32] = [0, 1, 2, 5];

function wireType(node: WireNode): number {
  if (/64$/.test(node.kind) && node.kind.includes("fixed")) return FIXED64;
  if (/32$/.test(node.kind) && node.kind.includes("fixed")) return FIXED32;
  if (node.kind === "double") return FIXED64;
  if (node.kind === "float") return FIXED32;
  return node.kind in BITS || node.kind === "bool" || node.kind === "enum" ? VARINT : SIZED;
}

class ProtobufWriter {
  constructor(
    private readonly wire: Wire,
    private readonly out: Writer,
  ) {}

  /** The fields of a message, or of what stands for one. */
  body(index: number, value: Json, path: string, depth: number): void {
    const node = nodeAt(this.wire, index);
    nested(path, depth);
    if (node.kind === "timestamp" || node.kind === "duration") return this.time(node, value, path);
    if (node.kind === "wrapper")
      return this.field({ name: "value", number: 1, of: node.of ?? -1, label: "implicit" }, value, path, depth);
    const found = members(value, "message", path);
    const fields = node.fields ?? [];
    surplus(found, fields, path);
    const choices = new Map<string, string>();
    for (const field of fields) {
      const below = `${path}/${field.name}`;
      const each = has(found, field.name) ? found[field.name] : undefined;
      if (each === undefined || each === null) {
        if (field.label === "required") throw new WireError(below, "required", "is required");
        continue;
      }
      const other = field.oneof === undefined ? undefined : choices.get(field.oneof);
      if (other !== undefined) throw new WireError(below, "oneof", `is given beside ${other}`);
      if (field.oneof !== undefined) choices.set(field.oneof, field.name);
      this.field(field, each, below, depth);
    }
  }

  private time(node: WireNode, value: Json, path: string): void {
    let nanoseconds: bigint;
    if (node.kind === "timestamp") nanoseconds = instant(value, path);
    else {
      const found = typeof value === "string" ? /^(-?)(\d{1,12})(?:\.(\d{1,9}))?s$/.exec(value) : null;
      if (found === null) throw wrong(value, "duration, such as 1.5s", path);
      nanoseconds = BigInt(found[2] ?? 0) * 1_000_000_000n + BigInt((found[3] ?? "").padEnd(9, "0"));
      if (found[1]) nanoseconds = -nanoseconds;
    }
    const seconds =
      node.kind === "timestamp" ? floorDivided(nanoseconds, 1_000_000_000n) : nanoseconds / 1_000_000_000n;
    const rest = nanoseconds - seconds * 1_000_000_000n;
    for (const [number, each] of [seconds, rest].entries()) {
      if (each === 0n) continue;
      this.tag(number + 1, VARINT);
      this.out.varint(each);
    }
  }

  private tag(number: number, type: number): void {
    this.out.varint((BigInt(number) << 3n) | BigInt(type));
  }

  private field(field: WireField, value: Json, path: string, depth: number): void {
    const node = nodeAt(this.wire, field.of);
    const number = field.number ?? 0;
    if (field.label === "map") return this.map(field, node, value, path, depth);
    if (field.label !== "repeated" && field.label !== "packed") {
      const before = new Writer();
      new ProtobufWriter(this.wire, before).single(field.of, value, path, depth);
      const bytes = before.bytes();
      // A field without presence is not written with its default.
      if (field.label === "implicit" && bytes.every((byte) => byte === 0)) return;
      this.tag(number, wireType(node));
      return this.out.raw(bytes);
    }
    if (!Array.isArray(value)) throw wrong(value, "array", path);
    if (value.length === 0) return;
    const items = new Writer();
    const into = field.label === "packed" ? new ProtobufWriter(this.wire, items) : this;
    value.forEach((item, place) => {
      if (field.label === "repeated") this.tag(number, wireType(node));
      into.single(field.of, item, `${path}/${place}`, depth);
    });
    if (field.label === "repeated") return;
    this.tag(number, SIZED);
    this.out.sized(items.bytes(), false);
  }

  private map(field: WireField, node: WireNode, value: Json, path: string, depth: number): void {
    const key = nodeAt(this.wire, field.key);
    for (const [name, each] of Object.entries(members(value, "map", path))) {
      const below = `${path}/${name}`;
      const entry = new Writer();
      const writer = new ProtobufWriter(this.wire, entry);
      writer.tag(1, wireType(key));
      writer.single(field.key ?? -1, keyOf(key, name), below, depth);
      writer.tag(2, wireType(node));
      writer.single(field.of, each, below, depth);
      this.tag(field.number ?? 0, SIZED);
      this.out.sized(entry.bytes(), false);
    }
  }

  private single(index: number, value: Json, path: string, depth: number): void {
    const node = nodeAt(this.wire, index);
    const bounds = BITS[node.kind];
    if (bounds) return this.integer(node, whole(value, node.kind, bounds[0], bounds[1], path));
    switch (node.kind) {
      case "bool":
        if (typeof value !== "boolean") throw wrong(value, "bool", path);
        return this.out.varint(value ? 1n : 0n);
      case "float":
      case "double":
        return this.out.real(node.kind, value, path);
      case "string":
        return this.out.text(value, path, false);
      case "bytes":
        return this.out.sized(fromBase64(value, "bytes", path), false);
      case "enum":
        return this.out.varint(this.numbered(node, value, path));
      default: {
        const inner = new Writer();
        new ProtobufWriter(this.wire, inner).body(index, value, path, depth + 1);
        return this.out.sized(inner.bytes(), false);
      }
    }
  }

  private integer(node: WireNode, value: bigint): void {
    const type = wireType(node);
    if (type === FIXED64) this.out.fixed(8, (view) => view.setBigUint64(0, BigInt.asUintN(64, value), true));
    else if (type === FIXED32) this.out.fixed(4, (view) => view.setUint32(0, Number(BigInt.asUintN(32, value)), true));
    else if (node.kind.startsWith("sint")) this.out.zigzag(value);
    else this.out.varint(value);
  }

  private numbered(node: WireNode, value: Json, path: string): bigint {
    const numbers = node.numbers ?? {};
    if (typeof value === "string" && has(numbers, value)) return BigInt(numbers[value] ?? 0);
    if (typeof value === "number" && !node.closed) return whole(value, "enum", -INT, INT - 1n, path);
    throw new WireError(path, "enum", `must be one of ${Object.keys(numbers).join(", ")}`);
  }
}

function keyOf(node: WireNode, name: string): Json {
  if (node.kind === "string") return name;
  if (node.kind === "bool") return name === "true" ? true : name === "false" ? false : name;
  return /^-?\d+$/.test(name) ? Number(name) : name;
}

class ProtobufReader {
  constructor(private readonly wire: Wire) {}

  body(index: number, from: Reader, path: string, depth: number): Json {
    const node = nodeAt(this.wire, index);
    nested(path, depth);
    if (node.kind === "timestamp" || node.kind === "duration") return this.time(node, from, path);
    const fields =
      node.kind === "wrapper"
        ? [{ name: "value", number: 1, of: node.of ?? -1, label: "implicit" }]
        : (node.fields ?? []);
    const found: Members = {};
    for (const field of fields) {
      if (field.label === "map") define(found, field.name, {});
      else if (field.label === "repeated" || field.label === "packed") define(found, field.name, []);
      else if (field.label === "implicit") define(found, field.name, this.zero(field.of));
    }
    while (from.left > 0) {
      const tag = from.varint();
      const [number, type] = [Number(tag >> 3n), Number(tag & 7n)];
      const field = fields.find((each) => each.number === number);
      if (field === undefined || !this.read(field, fields, type, from, found, path, depth)) this.skip(type, from, path);
    }
    for (const field of fields) {
      if (field.label === "required" && !has(found, field.name)) {
        throw new WireError(`${path}/${field.name}`, "required", "is required");
      }
    }
    return node.kind === "wrapper" ? (found["value"] ?? null) : found;
  }

  /** Read one occurrence of a field; false for one of another wire type, which is none of it. */
  private read(
    field: WireField,
    fields: readonly WireField[],
    type: number,
    from: Reader,
    found: Members,
    path: string,
    depth: number,
  ): boolean {
    const expected = wireType(nodeAt(this.wire, field.of));
    const below = `${path}/${field.name}`;
    if (field.label === "map") {
      if (type !== SIZED) return false;
      const entry = [
        { name: "key", number: 1, of: field.key ?? -1, label: "implicit" },
        { name: "value", number: 2, of: field.of, label: "implicit" },
      ];
      const inner = new Reader(from.sized(false), below);
      const pair: Members = { key: this.zero(field.key ?? -1), value: this.zero(field.of) };
      while (inner.left > 0) {
        const tag = inner.varint();
        const part = entry.find((each) => BigInt(each.number) === tag >> 3n);
        const known = part !== undefined && this.read(part, entry, Number(tag & 7n), inner, pair, below, depth);
        if (!known) this.skip(Number(tag & 7n), inner, below);
      }
      define(found[field.name] as Members, String(pair["key"]), pair["value"] ?? null);
      return true;
    }
    const several = field.label === "repeated" || field.label === "packed";
    if (several && type === SIZED && expected !== SIZED) {
      const inner = new Reader(from.sized(false), below);
      while (inner.left > 0) (found[field.name] as Json[]).push(this.single(field.of, inner, below, depth));
      return true;
    }
    if (type !== expected) return false;
    const value = this.single(field.of, from, below, depth);
    if (several) {
      (found[field.name] as Json[]).push(value);
      return true;
    }
    // The last one counts, and of several that exclude each other too.
    for (const other of fields) if (field.oneof && other.oneof === field.oneof) delete found[other.name];
    define(found, field.name, value);
    return true;
  }

  private time(node: WireNode, from: Reader, path: string): Json {
    const parts = [0n, 0n];
    while (from.left > 0) {
      const tag = from.varint();
      const place = Number(tag >> 3n) - 1;
      if ((tag & 7n) === 0n && (place === 0 || place === 1)) parts[place] = BigInt.asIntN(64, from.varint());
      else this.skip(Number(tag & 7n), from, path);
    }
    const nanoseconds = (parts[0] ?? 0n) * 1_000_000_000n + (parts[1] ?? 0n);
    if (node.kind === "timestamp") return timestamp(nanoseconds, path);
    const amount = nanoseconds < 0n ? -nanoseconds : nanoseconds;
    return `${nanoseconds < 0n ? "-" : ""}${amount / 1_000_000_000n}${fraction(amount % 1_000_000_000n)}s`;
  }

  private single(index: number, from: Reader, path: string, depth: number): Json {
    const node = nodeAt(this.wire, index);
    if (BITS[node.kind]) return small(this.integer(node, from), path);
    switch (node.kind) {
      case "bool":
        return from.varint() !== 0n;
      case "float":
        return finite(from.fixed(4).getFloat32(0, true), path);
      case "double":
        return finite(from.fixed(8).getFloat64(0, true), path);
      case "string":
        return from.text(false, path);
      case "bytes":
        return toBase64(from.sized(false));
      case "enum": {
        const number = Number(BigInt.asIntN(32, from.varint()));
        return Object.entries(node.numbers ?? {}).find(([, each]) => each === number)?.[0] ?? number;
      }
      default:
        return this.body(index, new Reader(from.sized(false), path), path, depth + 1);
    }
  }

  private integer(node: WireNode, from: Reader): bigint {
    const type = wireType(node);
    if (type === FIXED64) return signed(node, from.fixed(8).getBigUint64(0, true), 64);
    if (type === FIXED32) return signed(node, BigInt(from.fixed(4).getUint32(0, true)), 32);
    if (node.kind.startsWith("sint")) return from.zigzag();
    return signed(node, from.varint(), node.kind.endsWith("32") ? 32 : 64);
  }

  private zero(index: number): Json {
    const node = nodeAt(this.wire, index);
    if (node.kind === "bool") return false;
    if (node.kind === "string" || node.kind === "bytes") return "";
    if (node.kind === "enum") return Object.entries(node.numbers ?? {}).find(([, each]) => each === 0)?.[0] ?? 0;
    return wireType(node) === SIZED ? this.body(index, new Reader(new Uint8Array(), ""), "", 0) : 0;
  }

  private skip(type: number, from: Reader, path: string): void {
    if (type === VARINT) from.varint();
    else if (type === FIXED64) from.raw(8);
    else if (type === SIZED) from.sized(false);
    else if (type === FIXED32) from.raw(4);
    else throw new WireError(path, "decode", `there is no wire type ${type}`);
  }
}

function signed(node: WireNode, value: bigint, bits: number): bigint {
  return node.kind.startsWith("u") || node.kind.startsWith("f")
    ? BigInt.asUintN(bits, value)
    : BigInt.asIntN(bits, value);
}
