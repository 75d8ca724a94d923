// An application in JavaScript: node client.mjs confluent|kafkajs WHERE, in the folder where these clients live.
// WHERE, what it does and what it prints are those of client.py beside it; kafkajs carries what either of them writes.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(process.cwd() + "/");
const { Kafka, logLevel } = require("kafkajs");
const [name, where] = [process.argv[2], JSON.parse(process.argv[3])];
const orders = {
  1: { id: 1, to: { street: "Canal St", city: "Ghent" } },
  2: { id: 2, to: { street: "Rue Haute", city: "Mons" }, note: "ring twice" },
};
const kafka = new Kafka({ brokers: [where.brokers], logLevel: logLevel.ERROR });
const topic = (kind) => `${where.topics}-${kind}`;
const subject = (kind) => `${topic(kind)}-value`;
const text = (file) => readFileSync(`${where.schemas}/${file}`, "utf8");

// The schema of an order, which refers to that of an address.
function order(version, schemaType) {
  const ending = { AVRO: "avsc", JSON: "json", PROTOBUF: "proto" }[schemaType];
  const subject = `address.${ending}`;
  const reference = { name: schemaType === "AVRO" ? "shop.Address" : subject, subject, version: 1 };
  return { schemaType, schema: text(`${version}/order.${ending}`), references: [reference] };
}

const broken = () => ({ ...order(1, "AVRO"), schema: order(1, "AVRO").schema.replace('"int"', '"string"') });

// Send records, and receive them by Kafka; what each reader reads, the records by their ids.
async function carried(sent, readers) {
  const producer = kafka.producer({ allowAutoTopicCreation: false });
  const consumer = kafka.consumer({ groupId: where.topics });
  const topics = [...new Set(sent.map((each) => each.topic))];
  const admin = kafka.admin();
  await Promise.all([admin, producer, consumer].map((each) => each.connect()));
  await admin.createTopics({ topics: topics.map((each) => ({ topic: each })), waitForLeaders: true });
  for (const { topic, ...message } of sent) await producer.send({ topic, messages: [message] });
  await consumer.subscribe({ topics, fromBeginning: true });
  const received = [];
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
    const eachMessage = async (each) => received.push(each) === sent.length && resolve();
    consumer.run({ eachMessage }).catch(reject);
  });
  await Promise.all([admin, producer, consumer].map((each) => each.disconnect()));
  const read = {};
  for (const [[kind, how], decode] of readers) {
    const own = received.filter((each) => each.topic === topic(kind));
    const records = await Promise.all(own.map(({ topic, message }) => decode(topic, message)));
    read[`${kind} ${how}`] = records.sort((one, other) => one.id - other.id);
  }
  return read;
}

// What calls answer, the code of the error of those that fail.
async function answers(calls, code) {
  const found = [];
  for (const call of calls) found.push(await call().catch((error) => ({ code: code(error) })));
  return found;
}

async function confluent() {
  const { create, createFileRegistry, createMutableRegistry, fromBinary } = require("@bufbuild/protobuf");
  const { FileDescriptorSetSchema } = require("@bufbuild/protobuf/wkt");
  const registry = require("@confluentinc/schemaregistry");
  const { SchemaRegistryClient, SerdeType, HeaderSchemaIdSerializer } = registry;
  const client = new SchemaRegistryClient({ baseURLs: [where.registry] });
  for (const [schemaType, ending] of [["AVRO", "avsc"], ["JSON", "json"]]) {
    await client.register(`address.${ending}`, { schemaType, schema: text(`address.${ending}`) });
  }
  const sent = [];
  for (const [version, record] of Object.entries(orders)) {
    const files = fromBinary(FileDescriptorSetSchema, readFileSync(`${where.descriptors}/${version}.binpb`));
    const message = createFileRegistry(files).getMessage("shop.Order");
    const made = (kind, conf) => new registry[kind](client, SerdeType.VALUE, conf);
    const useSchemaId = await client.register(subject("avro"), order(version, "AVRO"));
    await client.register(subject("header"), order(version, "AVRO"));
    await client.register(subject("json"), order(version, "JSON"));
    const latest = { autoRegisterSchemas: false, useLatestVersion: true };
    const own = { autoRegisterSchemas: true, normalizeSchemas: true, registry: createMutableRegistry(message) };
    const serializers = {
      avro: [made("AvroSerializer", { autoRegisterSchemas: false, useSchemaId }), record],
      header: [made("AvroSerializer", { ...latest, schemaIdSerializer: HeaderSchemaIdSerializer }), record],
      json: [made("JsonSerializer", { ...latest, validate: true }), record],
      protobuf: [made("ProtobufSerializer", own), create(message, record)],
    };
    client.clearLatestCaches();
    for (const [kind, [serializer, value]] of Object.entries(serializers)) {
      const headers = {};
      sent.push({ topic: topic(kind), value: await serializer.serialize(topic(kind), value, headers), headers });
    }
  }
  const reader = (kind, conf = {}) => {
    const made = new registry[kind](client, SerdeType.VALUE, conf);
    return (topic, { value, headers }) => made.deserialize(topic, value, headers);
  };
  const [ruled, refused] = await underRules(registry, client);
  sent.push(ruled);
  const read = await carried(sent, [
    [["avro", "as written"], reader("AvroDeserializer")],
    [["avro", "as 2"], reader("AvroDeserializer", { useLatestVersion: true })],
    [["header", "as written"], reader("AvroDeserializer")],
    [["json", "as written"], reader("JsonDeserializer", { validate: true })],
    [["protobuf", "as written"], reader("ProtobufDeserializer")],
    [["ruled", "as migrated"], reader("AvroDeserializer", { useLatestWithMetadata: major(2) })],
  ]);
  const calls = [
    async () => refused,
    () => client.getAllVersions(subject("avro")),
    () => client.testSubjectCompatibility(subject("avro"), order(1, "AVRO")),
    () => client.testSubjectCompatibility(subject("avro"), broken()),
    () => client.register(subject("avro"), broken()),
    () => client.getId(subject("avro"), broken()),
    () => client.getVersion(subject("avro"), order(2, "AVRO")),
    () => client.getBySubjectAndId(subject("avro"), 1_000_000),
    () => client.getLatestSchemaMetadata("nothing"),
    () => client.updateCompatibility(topic("scratch"), "NONE"),
    () => client.getCompatibility(topic("scratch")),
    () => client.getConfig(subject("avro")),
    () => client.register(topic("scratch"), { schema: '"string"' }).then((id) => id > 0),
    () => client.deleteSubjectVersion(topic("scratch"), 1),
    () => client.deleteSubjectVersion(topic("scratch"), 1, true),
    () => client.deleteSubject("address.avsc"),
  ];
  return { read, answers: await answers(calls, (error) => error.errorCode) };
}

const major = (version) => ({ "application.major.version": String(version) });

// An order by a schema with a rule that it keeps, and the message of the error of one that does not keep it. The next
// version breaks all that were before it, and has the rule by which orders of theirs are read.
async function underRules({ AvroSerializer, CelExecutor, JsonataExecutor, SerdeType }, client) {
  CelExecutor.register();
  JsonataExecutor.register();
  await client.updateConfig(subject("ruled"), { compatibilityGroup: Object.keys(major(1))[0] });
  const numbered = { name: "numbered", kind: "CONDITION", mode: "WRITE", type: "CEL", expr: "message.id > 0" };
  const first = { ...order(1, "AVRO"), metadata: { properties: major(1) }, ruleSet: { domainRules: [numbered] } };
  const expr = "$merge([$sift($, function($value, $key) { $key != 'id' }), {'number': id}])";
  const renamed = { name: "renamed", kind: "TRANSFORM", mode: "UPGRADE", type: "JSONATA", expr };
  const schema = first.schema.replace('"id"', '"number"');
  const second = { ...first, schema, metadata: { properties: major(2) }, ruleSet: { migrationRules: [renamed] } };
  await client.register(subject("ruled"), first);
  await client.register(subject("ruled"), second);
  const serializer = new AvroSerializer(client, SerdeType.VALUE, { useLatestWithMetadata: major(1) });
  const written = (record) => serializer.serialize(topic("ruled"), record);
  const refused = await written({ ...orders[1], id: 0 }).catch((error) => error.message);
  return [{ topic: topic("ruled"), value: await written(orders[1]) }, refused];
}

async function community() {
  const { COMPATIBILITY, SchemaRegistry } = require("@kafkajs/confluent-schema-registry");
  const client = new SchemaRegistry({ host: where.registry });
  const kinds = { avro: "AVRO", json: "JSON", protobuf: "PROTOBUF" };
  // It does not find Protobuf's own types.
  const known = (schema) => schema.replaceAll(/^.*google.protobuf.*$/gm, "");
  const put = (subject, { schemaType: type, schema, ...more }, options = {}) =>
    client.register({ type, schema: known(schema), ...more }, { subject, ...options });
  for (const [schemaType, ending] of [["AVRO", "avsc"], ["JSON", "json"]]) {
    await put(`address.${ending}`, { schemaType, schema: text(`address.${ending}`) });
  }
  // It asks for nothing to be normalized, so that what it has to say of an address in Protobuf is another schema.
  const imported = { name: "address.proto", subject: topic("address.proto"), version: 1 };
  await put(imported.subject, { schemaType: "PROTOBUF", schema: text(imported.name) });
  const sent = [];
  for (const [version, record] of Object.entries(orders)) {
    for (const [kind, schemaType] of Object.entries(kinds)) {
      const references = schemaType === "PROTOBUF" ? { references: [imported] } : {};
      const { id } = await put(subject(kind), { ...order(version, schemaType), ...references });
      sent.push({ topic: topic(kind), value: await client.encode(id, record) });
    }
  }
  const fresh = new SchemaRegistry({ host: where.registry });
  const readerSchema = (version) => {
    const schema = JSON.parse(text(`${version}/order.avsc`));
    schema.fields[1].type = JSON.parse(text("address.avsc"));
    return schema;
  };
  const reader = (options) => (_, { value }) => fresh.decode(value, options);
  const read = await carried(sent, [
    [["avro", "as 1"], reader({ AVRO: { readerSchema: readerSchema(1) } })],
    [["avro", "as 2"], reader({ AVRO: { readerSchema: readerSchema(2) } })],
    [["json", "as written"], reader()],
    [["protobuf", "as written"], reader()],
  ]);
  const calls = [
    () => put(subject("avro"), broken()),
    () => fresh.getRegistryIdBySchema(subject("avro"), { type: "AVRO", ...broken() }),
    () => fresh.getRegistryId(subject("avro"), 9),
    () => fresh.getLatestSchemaId("nothing"),
    () => fresh.getSchema(1_000_000),
    () => put(subject("avro"), order(1, "AVRO"), { compatibility: COMPATIBILITY.FULL }),
  ];
  return { read, answers: await answers(calls, (error) => error.status ?? error.name) };
}

const found = await { confluent, kafkajs: community }[name]();
process.stdout.write(JSON.stringify(found, (key, value) => (key === "$typeName" ? undefined : value)));
