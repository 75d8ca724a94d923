// Runs compiled modules: one task a line as JSON, one answer a line. Values that are bytes are base64.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const bytes = (text) => (text === null ? null : Uint8Array.from(Buffer.from(text, "base64")));
const text = (body) => (body === null ? null : Buffer.from(body).toString("base64"));
const load = (path) => import(pathToFileURL(`${process.argv[2]}/${path}.js`).href);

function wired(kind, codec) {
  try {
    return codec();
  } catch (error) {
    if (error instanceof kind) error.findings = [error.finding];
    throw error;
  }
}

const actions = {
  async check({ rules, root, value }) {
    const { check } = await load("shop/rules");
    return check(rules, root, value, "data");
  },
  async encode({ format, wire, root, value }) {
    const { encode, WireError } = await load("shop/wire");
    return wired(WireError, () => text(encode(format, wire, root, value, "data")));
  },
  async decode({ format, wire, root, value }) {
    const { decode, WireError } = await load("shop/wire");
    return wired(WireError, () => decode(format, wire, root, bytes(value), "data"));
  },
  async kafka({ module, payload, values, given, raw }) {
    const [runtime, message] = [await load("shop/runtime"), await load(module)];
    const record = runtime.toKafka(message.build(raw ? bytes(payload) : payload, values ?? {}), given);
    return { ...record, value: text(record.value) };
  },
  async http({ module, payload, values, given }) {
    const [runtime, message] = [await load("shop/runtime"), await load(module)];
    const request = runtime.toHttp(message.build(payload, values ?? {}), given);
    return { ...request, body: text(request.body) };
  },
  async event({ module, payload, values }) {
    const [runtime, message] = [await load("shop/runtime"), await load(module)];
    return runtime.cloudEvent(message.build(payload, values ?? {}));
  },
  async message({ module, payload, values }) {
    const { definition, options, contentType, body } = (await load(module)).build(payload, values ?? {});
    return { protocol: definition.protocol, contentType, options, attributes: null, body: text(body) };
  },
  async read({ module, message }) {
    const { payload, context } = (await load(module)).parse({ ...message, body: bytes(message.body) });
    return { payload, context };
  },
  async parse({ module, record, request, event, raw }) {
    const [runtime, message] = [await load("shop/runtime"), await load(module)];
    let received = event && runtime.fromCloudEvent(event);
    if (record) received = runtime.fromKafka({ ...record, value: bytes(record.value) });
    if (request) received = runtime.fromHttp({ ...request, body: bytes(request.body) });
    const { payload, context, attributes } = message.parse(received);
    return { payload: raw ? text(payload) : payload, context, attributes };
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { action, ...task } = JSON.parse(line);
  let answer;
  try {
    answer = { result: await actions[action](task) };
  } catch (error) {
    if (!error.findings) throw error;
    answer = { error: error.name, findings: error.findings };
  }
  console.log(JSON.stringify(answer));
}
