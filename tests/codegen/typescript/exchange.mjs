// Orders to and from Kafka by generated code and kafkajs: FOLDER CLIENTS SERVERS TOPIC produce SHOP | consume COUNT
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [, , folder, clients, servers, topic, what, argument] = process.argv;
const { Kafka, logLevel } = createRequire(`${clients}/`)("kafkajs");
const load = (path) => import(pathToFileURL(`${folder}/${path}.js`).href);
const { toKafka, fromKafka } = await load("shop/runtime");
const { orderPlaced2 } = await load("shop/shop_orders/index");
// On a busy machine the broker may take its time with a group.
const kafka = new Kafka({ brokers: [servers], logLevel: logLevel.NOTHING, retry: { retries: 20 } });

if (what === "produce") {
  const producer = kafka.producer();
  await producer.connect();
  for (const mode of ["binary", "structured"]) {
    const order = { kind: "new", total: 2.5, buyer: { "e-mail": `${argument}@example.com` } };
    const { key, headers, value } = toKafka(orderPlaced2.build(order, { shop: argument }), { topic, mode, key: argument });
    await producer.send({ topic, messages: [{ key, headers, value: Buffer.from(value) }] });
  }
  await producer.disconnect();
} else {
  const consumer = kafka.consumer({ groupId: `${topic}-typescript` });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  let left = Number(argument);
  await new Promise((resolve, reject) => {
    const eachMessage = async ({ message }) => {
      try {
        const { payload, context } = orderPlaced2.parse(fromKafka({ topic, ...message }));
        console.log(JSON.stringify([context.shop, payload]));
        left -= 1;
        if (left === 0) resolve();
      } catch (error) {
        reject(error);
      }
    };
    consumer.on(consumer.events.CRASH, ({ payload }) => payload.restart || reject(payload.error));
    consumer.run({ eachMessage }).catch(reject);
  });
  await consumer.disconnect();
}
