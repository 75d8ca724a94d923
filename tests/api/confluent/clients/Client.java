// An application in Java: java -cp JARS Client.java WHERE, by Spring's client of Confluent's registry and Kafka's own.
// WHERE, what it does and what it prints are those of client.py beside it. Spring writes the subject and version of a
// schema into a header of each message, and no id before its value.

import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.springframework.cache.support.NoOpCacheManager;
import org.springframework.cloud.stream.schema.registry.SchemaReference;
import org.springframework.cloud.stream.schema.registry.avro.AvroSchemaRegistryClientMessageConverter;
import org.springframework.cloud.stream.schema.registry.avro.AvroSchemaServiceManagerImpl;
import org.springframework.cloud.stream.schema.registry.avro.DefaultSubjectNamingStrategy;
import org.springframework.cloud.stream.schema.registry.client.ConfluentSchemaRegistryClient;
import org.springframework.core.io.ByteArrayResource;
import org.springframework.messaging.MessageHeaders;
import org.springframework.messaging.support.MessageBuilder;
import org.springframework.util.MimeType;

public class Client {
  static final ObjectMapper JSON = new ObjectMapper();
  static final String KIND = MessageHeaders.CONTENT_TYPE;
  static Map<?, ?> where;
  static ConfluentSchemaRegistryClient registry;

  public static void main(String[] arguments) throws Exception {
    where = JSON.readValue(arguments[0], Map.class);
    registry = new ConfluentSchemaRegistryClient();
    registry.setEndpoint(text("registry"));
    var read = carried(List.of(order(1, 1, "Canal St", "Ghent"), order(2, 2, "Rue Haute", "Mons")));
    String subject = "order", broken = schema(1).toString().replace("\"int\"", "\"string\"");
    var answers = new ArrayList<>();
    List<Callable<Object>> calls = List.of(
        () -> registry.register(subject, "avro", schema(1).toString(true)).getId(),
        () -> new Schema.Parser().parse(registry.fetch(1)).equals(schema(1)),
        () -> registry.fetch(new SchemaReference(subject, 2, "avro")).contains("note"),
        () -> registry.register(subject, "avro", broken),
        () -> registry.fetch(new SchemaReference(subject, 9, "avro")),
        () -> registry.fetch(1_000_000));
    for (var call : calls) {
      try {
        answers.add(call.call());
      } catch (RuntimeException error) {
        answers.add(error.getMessage());
      }
    }
    System.out.println(JSON.writeValueAsString(Map.of("read", read, "answers", answers)));
  }

  /** Send records, and receive them by Kafka; what each reader reads, the records by their ids. */
  static Map<String, Object> carried(List<GenericRecord> records) throws Exception {
    Map<String, Object> settings = Map.of(
        "bootstrap.servers", text("brokers"), "group.id", text("topics"), "auto.offset.reset", "earliest");
    var topic = text("topics") + "-avro";
    var writer = converter(null);
    try (var producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
      for (var record : records) {
        var headers = new MessageHeaders(Map.of(KIND, MimeType.valueOf("application/*+avro")));
        var message = writer.toMessage(record, headers);
        var sent = new ProducerRecord<byte[], byte[]>(topic, (byte[]) message.getPayload());
        sent.headers().add(KIND, message.getHeaders().get(KIND).toString().getBytes());
        producer.send(sent).get();
      }
    }
    var readers = Map.of(
        "avro as 1", converter(schema(1)), "avro as 2", converter(schema(2)), "avro as written", writer);
    var found = new HashMap<String, TreeMap<Integer, Object>>();
    try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
      consumer.subscribe(List.of(topic));
      for (int received = 0; received < records.size(); ) {
        for (var each : consumer.poll(Duration.ofSeconds(1))) {
          received++;
          var kind = MimeType.valueOf(new String(each.headers().lastHeader(KIND).value()));
          var message = MessageBuilder.withPayload(each.value()).setHeader(KIND, kind).build();
          for (var reader : readers.entrySet()) {
            var record = (GenericRecord) reader.getValue().fromMessage(message, GenericRecord.class);
            var all = found.computeIfAbsent(reader.getKey(), name -> new TreeMap<>());
            all.put((Integer) record.get("id"), JSON.readTree(record.toString()));
          }
        }
      }
    }
    var read = new HashMap<String, Object>();
    found.forEach((name, all) -> read.put(name, all.values()));
    return read;
  }

  /** What writes records and reads them, as they were written or as a schema has them. */
  static AvroSchemaRegistryClientMessageConverter converter(Schema reader) throws Exception {
    var made = new AvroSchemaRegistryClientMessageConverter(
        registry, new NoOpCacheManager(), new AvroSchemaServiceManagerImpl());
    made.setSubjectNamingStrategy(new DefaultSubjectNamingStrategy());
    if (reader != null) made.setReaderSchema(new ByteArrayResource(reader.toString().getBytes()));
    made.afterPropertiesSet();
    return made;
  }

  /** The schema of an order, with that of an address in it: Spring knows no references. */
  static Schema schema(int version) throws Exception {
    var parser = new Schema.Parser();
    parser.parse(file("address.avsc"));
    return parser.parse(file(version + "/order.avsc"));
  }

  static GenericRecord order(int version, int id, String street, String city) throws Exception {
    var schema = schema(version);
    var to = new GenericData.Record(schema.getField("to").schema());
    to.put("street", street);
    to.put("city", city);
    var order = new GenericData.Record(schema);
    order.put("id", id);
    order.put("to", to);
    if (version == 2) order.put("note", "ring twice");
    return order;
  }

  static String file(String name) throws Exception {
    return Files.readString(Path.of(text("schemas"), name));
  }

  static String text(String name) {
    return (String) where.get(name);
  }
}
