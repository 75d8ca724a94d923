/** What is wrong with a message, and where: a path such as `data/items/0/count`. */
export interface Finding {
  readonly path: string;
  readonly rule: string;
  readonly message: string;
}

/** A JSON value. */
export type Json = null | boolean | number | string | Json[] | { [name: string]: Json };

type Members = { [name: string]: Json };

/** One schema: sub-schemas are places in the table. */
export interface SchemaRule {
  type?: string[];
  values?: Json[];
  min?: number;
  max?: number;
  above?: number;
  below?: number;
  multiple?: number;
  minLength?: number;
  maxLength?: number;
  pattern?: string;
  required?: string[];
  minProperties?: number;
  maxProperties?: number;
  properties?: { [name: string]: number };
  patterns?: [string, number][];
  others?: number;
  names?: number;
  requires?: { [name: string]: string[] };
  dependents?: { [name: string]: number };
  prefix?: number[];
  items?: number;
  minItems?: number;
  maxItems?: number;
  unique?: boolean;
  contains?: number;
  minContains?: number;
  maxContains?: number;
  all?: number[];
  any?: number[];
  one?: number[];
  not?: number;
  if?: number;
  then?: number;
  else?: number;
  unevaluatedProperties?: number;
  unevaluatedItems?: number;
}

export type Rules = readonly (SchemaRule | boolean)[];

const MOST_FINDINGS = 100;
const DEEPEST = 512;
const patterns = new Map<string, RegExp>();

/** Everything that a schema has against a value, at most a hundred findings. */
export function check(rules: Rules, root: number, value: Json, path: string): Finding[] {
  const checker = new Checker(rules);
  checker.check(root, value, path, 0);
  return checker.findings.slice(0, MOST_FINDINGS);
}

/** Members and items of one value that some rule has looked at. */
type Seen = Set<string | number>;

class Checker {
  findings: Finding[] = [];

  constructor(private readonly rules: Rules) {}

  check(index: number, value: Json, path: string, depth: number): Seen {
    const seen: Seen = new Set();
    const rule = this.rules[index] ?? true;
    if (typeof rule === "boolean") {
      if (!rule) this.report(path, "false", "no value is allowed here");
      return seen;
    }
    if (depth > DEEPEST) {
      this.report(path, "depth", "the value is nested too deep");
      return seen;
    }
    this.plain(rule, value, path);
    if (typeof value === "number") this.number(rule, value, path);
    if (typeof value === "string") this.text(rule, value, path);
    this.combined(rule, value, path, depth, seen);
    if (Array.isArray(value)) this.array(rule, value, path, depth, seen);
    else if (typeof value === "object" && value !== null) this.object(rule, value, path, depth, seen);
    return seen;
  }

  private report(path: string, rule: string, message: string): void {
    if (this.findings.length <= MOST_FINDINGS) this.findings.push({ path, rule, message });
  }

  private plain(rule: SchemaRule, value: Json, path: string): void {
    if (rule.type && !rule.type.some((name) => isOf(name, value))) {
      this.report(path, "type", `must be of type ${rule.type.join(" or ")}, not ${shown(value)}`);
    }
    if (rule.values && !rule.values.some((each) => equal(each, value))) {
      this.report(path, "enum", `must be one of ${rule.values.map(shown).join(", ")}, not ${shown(value)}`);
    }
  }

  private number(rule: SchemaRule, value: number, path: string): void {
    if (rule.min !== undefined && value < rule.min) this.report(path, "minimum", `must be at least ${rule.min}`);
    if (rule.max !== undefined && value > rule.max) this.report(path, "maximum", `must be at most ${rule.max}`);
    if (rule.above !== undefined && value <= rule.above) {
      this.report(path, "exclusiveMinimum", `must be more than ${rule.above}`);
    }
    if (rule.below !== undefined && value >= rule.below) {
      this.report(path, "exclusiveMaximum", `must be less than ${rule.below}`);
    }
    if (rule.multiple !== undefined && !isMultiple(value, rule.multiple)) {
      this.report(path, "multipleOf", `must be a multiple of ${rule.multiple}`);
    }
  }

  private text(rule: SchemaRule, value: string, path: string): void {
    if (rule.minLength !== undefined || rule.maxLength !== undefined) {
      const length = [...value].length;
      if (length < (rule.minLength ?? 0)) {
        this.report(path, "minLength", `must have at least ${rule.minLength} characters`);
      }
      if (length > (rule.maxLength ?? Infinity)) {
        this.report(path, "maxLength", `must have at most ${rule.maxLength} characters`);
      }
    }
    if (rule.pattern !== undefined && !expression(rule.pattern).test(value)) {
      this.report(path, "pattern", `must match ${rule.pattern}`);
    }
  }

  /** What an alternative has against a value, and what it has looked at; nothing is reported. */
  private attempt(index: number, value: Json, path: string, depth: number): { findings: Finding[]; seen: Seen } {
    const kept = this.findings;
    this.findings = [];
    const seen = this.check(index, value, path, depth + 1);
    const findings = this.findings;
    this.findings = kept;
    return { findings, seen };
  }

  private combined(rule: SchemaRule, value: Json, path: string, depth: number, seen: Seen): void {
    for (const each of rule.all ?? []) add(seen, this.check(each, value, path, depth + 1));
    if (rule.any) this.alternatives(rule.any, "anyOf", value, path, depth, seen);
    if (rule.one) this.alternatives(rule.one, "oneOf", value, path, depth, seen);
    if (rule.not !== undefined && this.attempt(rule.not, value, path, depth).findings.length === 0) {
      this.report(path, "not", "is what is not allowed here");
    }
    if (rule.if === undefined) return;
    const condition = this.attempt(rule.if, value, path, depth);
    const holds = condition.findings.length === 0;
    if (holds) add(seen, condition.seen);
    const following = holds ? rule.then : rule.else;
    if (following !== undefined) add(seen, this.check(following, value, path, depth + 1));
  }

  private alternatives(indices: number[], name: string, value: Json, path: string, depth: number, seen: Seen): void {
    const attempts = indices.map((each) => this.attempt(each, value, path, depth));
    const fitting = attempts.filter((each) => each.findings.length === 0);
    for (const each of fitting) add(seen, each.seen);
    if (fitting.length === 0) {
      const least = attempts.reduce((a, b) => (b.findings.length < a.findings.length ? b : a));
      const why = least.findings.map((each) => `${each.path}: ${each.message}`).join("; ");
      this.report(path, name, `fits none of the alternatives; of the nearest one: ${why}`);
    } else if (name === "oneOf" && fitting.length > 1) {
      this.report(path, name, `fits ${fitting.length} alternatives, where one is allowed`);
    }
  }

  private array(rule: SchemaRule, value: Json[], path: string, depth: number, seen: Seen): void {
    if (value.length < (rule.minItems ?? 0)) this.report(path, "minItems", `must have at least ${rule.minItems} items`);
    if (value.length > (rule.maxItems ?? Infinity)) {
      this.report(path, "maxItems", `must have at most ${rule.maxItems} items`);
    }
    if (rule.unique && !isUnique(value)) this.report(path, "uniqueItems", "has an item twice");
    value.forEach((item, place) => {
      const index = rule.prefix?.[place] ?? rule.items;
      if (index !== undefined) {
        this.check(index, item, `${path}/${place}`, depth + 1);
        seen.add(place);
      }
    });
    if (rule.contains !== undefined) this.contained(rule, rule.contains, value, path, depth, seen);
    if (rule.unevaluatedItems === undefined) return;
    for (const [place, item] of value.entries()) {
      if (!seen.has(place)) this.check(rule.unevaluatedItems, item, `${path}/${place}`, depth + 1);
      seen.add(place);
    }
  }

  private contained(rule: SchemaRule, index: number, value: Json[], path: string, depth: number, seen: Seen): void {
    let count = 0;
    value.forEach((item, place) => {
      if (this.attempt(index, item, path, depth).findings.length === 0) {
        count += 1;
        seen.add(place);
      }
    });
    const least = rule.minContains ?? 1;
    if (count < least) this.report(path, "contains", `must have at least ${least} items of a kind, and has ${count}`);
    if (count > (rule.maxContains ?? Infinity)) {
      this.report(path, "maxContains", `must have at most ${rule.maxContains} items of a kind, and has ${count}`);
    }
  }

  private object(rule: SchemaRule, value: Members, path: string, depth: number, seen: Seen): void {
    const names = Object.keys(value);
    this.counted(rule, value, names.length, path);
    for (const name of names) {
      const below = `${path}/${escaped(name)}`;
      if (rule.names !== undefined) this.check(rule.names, name, below, depth + 1);
      let known = false;
      const own = rule.properties && has(rule.properties, name) ? rule.properties[name] : undefined;
      const indices = own === undefined ? [] : [own];
      for (const [pattern, index] of rule.patterns ?? []) if (expression(pattern).test(name)) indices.push(index);
      if (indices.length === 0 && rule.others !== undefined) indices.push(rule.others);
      for (const index of indices) {
        this.check(index, value[name] as Json, below, depth + 1);
        known = true;
      }
      if (known) seen.add(name);
    }
    for (const [name, index] of Object.entries(rule.dependents ?? {})) {
      if (has(value, name)) add(seen, this.check(index, value, path, depth + 1));
    }
    if (rule.unevaluatedProperties === undefined) return;
    for (const name of names.filter((each) => !seen.has(each))) {
      this.check(rule.unevaluatedProperties, value[name] as Json, `${path}/${escaped(name)}`, depth + 1);
      seen.add(name);
    }
  }

  private counted(rule: SchemaRule, value: Members, count: number, path: string): void {
    for (const name of rule.required ?? []) {
      if (!has(value, name)) this.report(`${path}/${escaped(name)}`, "required", "is required");
    }
    for (const [name, needed] of Object.entries(rule.requires ?? {})) {
      for (const each of has(value, name) ? needed : []) {
        if (!has(value, each)) this.report(`${path}/${escaped(each)}`, "required", `is required, as there is ${name}`);
      }
    }
    if (count < (rule.minProperties ?? 0)) {
      this.report(path, "minProperties", `must have at least ${rule.minProperties} members`);
    }
    if (count > (rule.maxProperties ?? Infinity)) {
      this.report(path, "maxProperties", `must have at most ${rule.maxProperties} members`);
    }
  }
}

function add(seen: Seen, more: Seen): void {
  for (const each of more) seen.add(each);
}

function has(value: object, name: string): boolean {
  return Object.prototype.hasOwnProperty.call(value, name);
}

function escaped(name: string): string {
  return name.replace(/~/g, "~0").replace(/\//g, "~1");
}

/** Expressions of Unicode know no escaped character that needs no escape, such as `\-` and `\@`. */
function standard(escape: string): string {
  return /[-_@#%&~<>=:;,!"'` ]/.test(escape) ? `\\x${escape.charCodeAt(1).toString(16)}` : escape;
}

function expression(pattern: string): RegExp {
  const known = patterns.get(pattern);
  if (known) return known;
  const made = new RegExp(pattern.replace(/\\[^]/g, standard), "u");
  patterns.set(pattern, made);
  return made;
}

function isOf(name: string, value: Json): boolean {
  if (name === "null") return value === null;
  if (name === "array") return Array.isArray(value);
  if (name === "integer") return Number.isInteger(value);
  if (name === "object") return typeof value === "object" && value !== null && !Array.isArray(value);
  return typeof value === name;
}

/** Whether two JSON values are the same. */
export function equal(left: Json, right: Json): boolean {
  if (typeof left !== "object" || typeof right !== "object" || left === null || right === null) return left === right;
  if (Array.isArray(left) || Array.isArray(right)) {
    const both = Array.isArray(left) && Array.isArray(right) && left.length === right.length;
    return both && left.every((each, place) => equal(each, right[place] as Json));
  }
  const names = Object.keys(left);
  if (names.length !== Object.keys(right).length) return false;
  return names.every((name) => has(right, name) && equal(left[name] as Json, right[name] as Json));
}

function isUnique(items: Json[]): boolean {
  return new Set(items.map(canonical)).size === items.length;
}

function canonical(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const names = Object.keys(value).sort();
  return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value[name] as Json)}`).join(",")}}`;
}

/** Exact: both numbers as whole ones of the same power of ten. */
function isMultiple(value: number, of: number): boolean {
  const [left, leftPower] = decimal(value);
  const [right, rightPower] = decimal(of);
  const power = Math.min(leftPower, rightPower);
  const divisor = right * 10n ** BigInt(rightPower - power);
  return divisor !== 0n && (left * 10n ** BigInt(leftPower - power)) % divisor === 0n;
}

function decimal(value: number): [bigint, number] {
  const [digits = "0", exponent = "0"] = value.toString().split("e");
  const [whole = "0", fraction = ""] = digits.split(".");
  return [BigInt(whole + fraction), Number(exponent) - fraction.length];
}

function shown(value: Json): string {
  const text = JSON.stringify(value);
  return text.length <= 100 ? text : `${text.slice(0, 99)}…`;
}
